"""The sections of a report: one for each family that the files define, in their order.

The family's `lead` counters are the columns that a section's table shows at once, as far as its
rows have them; all others are shown on request. What stands out in a section, and is named in the
summary, is the largest figure of the first of them that is no time: times depend on sizes that
somebody chose.
"""

from dataclasses import dataclass

from overlapbench.counters import Better, Counter, Family, Table

_TIMES = ("ms", "us")
_WORDS = {Better.LOWER: "worst", Better.HIGHER: "highest", Better.NEITHER: "largest"}


@dataclass(frozen=True)
class Section:
    """One section."""

    title: str
    about: str
    counters: tuple[str, ...]
    notable: Counter | None = None

    @property
    def name(self) -> str:
        """The fragment that leads here."""
        return self.title.replace(" ", "-")

    @property
    def notable_words(self) -> str:
        return f"{_WORDS[self.notable.better]} {self.notable.title}" if self.notable else ""


OTHER = Section("Other families", "Families that these results do not describe.", ())


def section_of(family: str, table: Table) -> Section:
    """Return the section of a family; OTHER where the table does not have it."""
    return next((_section(one, table) for one in table.families if one.name == family), OTHER)


def _section(family: Family, table: Table) -> Section:
    lead = [counter for counter in map(table.find, family.lead) if counter]
    notable = next((counter for counter in lead if counter.unit not in _TIMES), None)
    return Section(family.name, family.about, tuple(one.name for one in lead), notable)
