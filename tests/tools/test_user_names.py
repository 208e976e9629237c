"""Which names of rows, labels, steps and lanes are refused, and how."""

from typing import Any

import pytest

from overlapbench.measurement.user_names import check_names, check_word


@pytest.mark.parametrize("name", ["a", "Z9", "mineToo"])
def test_letters_and_digits_are_a_name(name: str) -> None:
    check_names(name, {"n": 4, "ab_9": "x-.y", "size": "1:"[:1], "test": "ä"})


@pytest.mark.parametrize("name", ["", "9a", "a_b", "a-b", "ä", "a b", "A/B", 5, None])
def test_anything_else_is_not(name: Any) -> None:
    with pytest.raises(
        ValueError, match=r"use letters and digits, starting with a letter$"
    ) as raised:
        check_names(name, {})
    assert str(raised.value).startswith(f"name is {name!r}: ")


@pytest.mark.parametrize("label", ["N", "_n", "9", "", "a-b", "nä"])
def test_a_label_has_lowercase_letters(label: str) -> None:
    with pytest.raises(
        ValueError, match=r"use lowercase letters, digits and _, as in n=4096$"
    ) as raised:
        check_names("mine", {"ok": 1, label: 1})
    assert str(raised.value).startswith(f"{label!r} is not a label: ")


@pytest.mark.parametrize(
    "label",
    [
        *("cache", "cadence", "first", "streams", "comp_sms", "comp_priority", "comm_priority"),
        *("gate", "gated", "kind", "budget_ms", "timeout_s", "host_cores", "self_test"),
        *("warmup_ms", "precision", "backend"),
    ],
)
def test_a_setting_is_no_label(label: str) -> None:
    with pytest.raises(
        ValueError, match=f"^{label} is a setting that this call does not have; it ca"
    ):
        check_names("mine", {label: 1})


@pytest.mark.parametrize(
    ("label", "meant"),
    [
        ("caches", "cache"),
        ("stream", "streams"),
        ("com_sms", "comp_sms"),
        ("budget_m", "budget_ms"),
    ],
)
def test_a_misspelt_setting_is_told_from_a_label(label: str, meant: str) -> None:
    complaint = f"^{label} cannot be a label: did you mean the setting {meant}\\?$"
    with pytest.raises(ValueError, match=complaint):
        check_names("mine", {label: 1})
    check_names("mine", {"case": 1, "budget": 1, "sms": 2, "cash": 3})  # alike, but not so much


@pytest.mark.parametrize("value", ["", "a b", "a/b", "a,b", "a=b", "a:b", "a\u200bb", "\n"])
def test_a_value_is_one_printable_word(value: str) -> None:
    complaint = f"n is {value!r}: use printable characters except spaces and / , = :"
    with pytest.raises(ValueError, match="use printable") as raised:
        check_names("mine", {"n": value})
    assert str(raised.value) == complaint


def test_a_word_is_a_text() -> None:
    check_word("the lane", "a")
    with pytest.raises(ValueError, match=r"^the lane is 5: use printable"):
        check_word("the lane", 5)  # type: ignore[arg-type]
