"""The comparison as JUnit XML: a test case a benchmark, which fails where the comparison does."""

from xml.etree import ElementTree

from overlapbench.compare.findings import Verdict
from overlapbench.compare.verdicts import Comparison
from overlapbench.names import family_of

_SKIPPED = frozenset({Verdict.NEW, Verdict.INVALID, Verdict.TOO_NOISY})


def format_junit(comparison: Comparison) -> str:
    suite = ElementTree.Element("testsuite", name="overlapbench")
    failures = skipped = 0
    for line in comparison.doubts:
        failures += 1
        case = ElementTree.SubElement(suite, "testcase", name="doubt", classname="launches")
        ElementTree.SubElement(case, "failure", type="doubt", message=line)
    for row in comparison.rows:
        family = family_of(row.name)
        case = ElementTree.SubElement(suite, "testcase", name=row.name, classname=family)
        if row.fails:
            failures += 1
            ElementTree.SubElement(case, "failure", type=row.verdict.value, message=row.reason)
        elif row.verdict in _SKIPPED:
            skipped += 1
            message = f"{row.verdict.value}: {row.reason}"
            ElementTree.SubElement(case, "skipped", message=message)
    counts = {"tests": len(suite), "failures": failures, "skipped": skipped}
    suite.attrib.update({key: str(count) for key, count in counts.items()})
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"
