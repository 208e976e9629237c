"""Which expressions and statements of a C++ file can be mutated, and into what.

`mutants_of` parses a file with libclang, as its entry in compile_commands.json says, and applies
the rules to the bodies of its functions, and to constants that a number initialises:

    <, <=, ==, ...      the neighbouring comparison, and the opposite one
    + - * / % && ||     another operator; also in += and the like
    !x, -x              x
    if (f())            if (!f())
    a ? b : c           a ? c : b
    numbers             one more, 0, ten times as much
    true                false
    min, front, ...     max, back, ... (PAIRS), also the other way round
    f(a, b)             f(b, a), if both have the same type
    f(); a = b; ++i;    nothing
    return; throw; break; continue;   nothing, if other statements of the function follow; so do
                                      calls of what never returns

Left out: what a macro expands to, case labels, other constant expressions, messages of exceptions,
sums of strings, constants named as seeds, whose random values any others could replace, and a 0
that a variable holds until a call is told its address to fill it in.
"""

import itertools
import re
import shlex
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from clang.cindex import Cursor, CursorKind, Index, TranslationUnit, TypeKind

from schemata import Mutant

OPERATORS = {
    "<": ("<=", ">="),
    "<=": ("<", ">"),
    ">": (">=", "<="),
    ">=": (">", "<"),
    "==": ("!=",),
    "!=": ("==",),
    "+": ("-",),
    "-": ("+",),
    "*": ("/",),
    "/": ("*",),
    "%": ("*",),
    "&&": ("||",),
    "||": ("&&",),
    "+=": ("-=",),
    "-=": ("+=",),
    "*=": ("/=",),
    "/=": ("*=",),
}
_BOTH_WAYS = (
    ("min", "max"),
    ("fmin", "fmax"),
    ("min_element", "max_element"),
    ("front", "back"),
    ("begin", "end"),
    ("low", "high"),
    ("lower", "upper"),
    ("lower_bound", "upper_bound"),
    ("first", "second"),
    ("floor", "ceil"),
    ("any_of", "all_of"),
)
PAIRS = {old: new for pair in _BOTH_WAYS for old, new in (pair, pair[::-1])}
_BINARY = (CursorKind.BINARY_OPERATOR, CursorKind.COMPOUND_ASSIGNMENT_OPERATOR)
_LEAVING = (
    CursorKind.RETURN_STMT,
    CursorKind.CXX_THROW_EXPR,
    CursorKind.BREAK_STMT,
    CursorKind.CONTINUE_STMT,
)
_FUNCTIONS = (
    CursorKind.FUNCTION_DECL,
    CursorKind.CXX_METHOD,
    CursorKind.CONSTRUCTOR,
    CursorKind.DESTRUCTOR,
    CursorKind.CONVERSION_FUNCTION,
    CursorKind.FUNCTION_TEMPLATE,
)
_WRAPPERS = (CursorKind.UNEXPOSED_EXPR, CursorKind.PAREN_EXPR)
_SKIPPED = (
    CursorKind.STATIC_ASSERT,
    CursorKind.ENUM_DECL,
    CursorKind.TYPE_ALIAS_DECL,
    CursorKind.CXX_UNARY_EXPR,  # sizeof
)


def parse(place: Path, entry: dict[str, str]) -> TranslationUnit:
    words = shlex.split(entry["command"])
    pairs = zip(words, [*words[1:], ""], strict=True)
    wanted = [
        (word, value) if word == "-isystem" else (word,)
        for word, value in pairs
        if word.startswith(("-I", "-D", "-std")) or word == "-isystem"
    ]
    flags = [flag for flags in wanted for flag in flags]
    return Index.create().parse(
        str(place),
        args=[*flags, "-idirafter", compiler_headers()],
        options=TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD,
    )


@cache
def compiler_headers() -> str:
    """The folder of stddef.h and the like, which libclang comes without."""
    command = ["c++", "-print-file-name=include"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def mutants_of(root: Path, name: str, entry: dict[str, str]) -> list[Mutant]:
    """All mutants of a file, in its order."""
    unit = parse(root / name, entry)
    errors = [str(found) for found in unit.diagnostics if found.severity >= found.Error]
    if errors:
        raise ValueError(f"{name} does not parse: {errors[0]}")
    return sorted(set(_Walk(root, name, unit).run()))


class _Walk:
    def __init__(self, root: Path, name: str, unit: TranslationUnit) -> None:
        self.name = name
        self.place = str(root / name)
        self.code = (root / name).read_bytes()
        self.unit = unit
        self.macros = [
            (found.extent.start.offset, found.extent.end.offset)
            for found in unit.cursor.get_children()
            if found.kind == CursorKind.MACRO_INSTANTIATION and self.is_here(found)
        ]

    def run(self) -> Iterator[Mutant]:
        for top in self.unit.cursor.get_children():
            if self.is_here(top) and not top.kind.is_preprocessing():
                yield from self.outside(top)

    def is_here(self, cursor: Cursor) -> bool:
        file = cursor.location.file
        return file is not None and file.name == self.place

    def outside(self, cursor: Cursor) -> Iterator[Mutant]:
        """What is not in a function."""
        if cursor.kind == CursorKind.VAR_DECL:
            yield from self.constant(cursor)
        elif cursor.kind in _FUNCTIONS:
            if "constexpr" not in self.text(cursor).partition("{")[0]:
                for child in cursor.get_children():
                    if child.kind == CursorKind.COMPOUND_STMT:
                        yield from self.inside(child, follows=False, is_void=is_void(cursor))
                    elif child.kind.is_expression():  # of a constructor's list
                        yield from self.inside(child, follows=False, is_void=True)
        elif cursor.kind not in _SKIPPED:
            for child in cursor.get_children():
                yield from self.outside(child)

    def constant(self, cursor: Cursor) -> Iterator[Mutant]:
        """`constexpr int kMost = 5;` If it is needed in a constant expression, it won't compile."""
        found = re.fullmatch(r"(?s).*=\s*([\w.'+-]+)", self.text(cursor))
        if "Seed" in cursor.spelling:
            return
        if found and "constexpr" in found[0] and not self.in_macro(cursor.extent.start.offset):
            number = found[1]
            begin = cursor.extent.end.offset - len(number)
            for mutated in numbers(number):
                yield self.mutant(begin, begin + len(number), mutated)

    def inside(self, cursor: Cursor, *, follows: bool, is_void: bool) -> Iterator[Mutant]:
        """Statements and expressions. `follows`: others of the function come after this one."""
        if cursor.kind in _SKIPPED or (
            cursor.kind == CursorKind.VAR_DECL and self.text(cursor).startswith("constexpr")
        ):
            yield from self.constant(cursor)
            return
        if not self.in_macro(cursor.extent.start.offset):
            yield from self.expression(cursor)
            if cursor.kind == CursorKind.CXX_THROW_EXPR:
                return  # the message
        if cursor.kind == CursorKind.VAR_DECL and self.is_filled_in(cursor):
            return
        children = list(cursor.get_children())
        if cursor.kind == CursorKind.LAMBDA_EXPR:
            follows, is_void = False, False
        if cursor.kind == CursorKind.CASE_STMT:
            children = children[1:]
        if cursor.kind == CursorKind.VAR_DECL and cursor.type.kind == TypeKind.CONSTANTARRAY:
            children = [child for child in children if child.kind != CursorKind.INTEGER_LITERAL]
        for number, child in enumerate(children):
            is_last = number + 1 == len(children)
            after = follows or (cursor.kind == CursorKind.COMPOUND_STMT and not is_last)
            if is_statement(cursor, number, len(children)):
                yield from self.deleted(child, follows=after or is_void)
            yield from self.inside(child, follows=after, is_void=is_void)

    def is_filled_in(self, variable: Cursor) -> bool:
        """`int size = 0; MPI_Comm_size(comm, &size);`"""
        if not re.fullmatch(r"\w+ \w+ = 0", self.text(variable)):
            return False
        for used in variable.semantic_parent.walk_preorder():
            operand = next(used.get_children(), used)
            if operand.kind == CursorKind.DECL_REF_EXPR and operand.referenced == variable:
                is_unary = used.kind == CursorKind.UNARY_OPERATOR
                return is_unary and bool(used.type.kind == TypeKind.POINTER)
        return False

    def deleted(self, statement: Cursor, *, follows: bool) -> Iterator[Mutant]:
        begin, end = self.span(statement)
        inner = statement
        while inner.kind in _WRAPPERS and len(list(inner.get_children())) == 1:
            inner = next(inner.get_children())
        if inner.kind in _LEAVING:
            fits = follows
        elif inner.kind in _BINARY:
            fits = bool(re.search(r"[^=!<>]=[^=]", self.text(inner)))
        elif inner.kind == CursorKind.CALL_EXPR and never_returns(inner.referenced):
            fits = follows
        else:
            fits = inner.kind in (CursorKind.CALL_EXPR, CursorKind.UNARY_OPERATOR)
        semicolon = re.compile(rb"\s*;").match(self.code, end)
        if fits and semicolon and not self.in_macro(begin):
            yield self.mutant(begin, semicolon.end(), "")

    def expression(self, cursor: Cursor) -> Iterator[Mutant]:
        begin, end = self.span(cursor)
        text = self.text(cursor)
        children = list(cursor.get_children())
        if cursor.kind in (CursorKind.INTEGER_LITERAL, CursorKind.FLOATING_LITERAL):
            changed = numbers(text)
        elif cursor.kind == CursorKind.CXX_BOOL_LITERAL_EXPR:
            changed = ["false" if text == "true" else "true"]
        elif cursor.kind in _BINARY and len(children) == 2:
            changed = self.operators(cursor, children[0], children[1])
        elif cursor.kind == CursorKind.UNARY_OPERATOR:
            changed = unary(text)
        elif cursor.kind == CursorKind.CONDITIONAL_OPERATOR:
            first, second, third = (self.text(child) for child in children)
            changed = [f"{first} ? {third} : {second}"]
        elif cursor.kind == CursorKind.CALL_EXPR:
            changed = self.calls(cursor, children)
        elif cursor.kind == CursorKind.MEMBER_REF_EXPR and cursor.type.kind != TypeKind.UNEXPOSED:
            changed = renamed(text)
        elif cursor.kind in (CursorKind.IF_STMT, CursorKind.WHILE_STMT):
            yield from self.condition(children)
            return
        else:
            return
        for mutated in changed:
            yield self.mutant(begin, end, mutated)

    def condition(self, children: list[Cursor]) -> Iterator[Mutant]:
        for child in children[:-1]:
            while child.kind in _WRAPPERS and len(list(child.get_children())) == 1:
                child = next(child.get_children())
            plain = child.kind in (
                CursorKind.CALL_EXPR,
                CursorKind.DECL_REF_EXPR,
                CursorKind.MEMBER_REF_EXPR,
            )
            begin, end = self.span(child)
            if plain and not child.spelling.startswith("operator") and not self.in_macro(begin):
                yield self.mutant(begin, end, f"!({self.text(child)})")

    def operators(self, cursor: Cursor, left: Cursor, right: Cursor) -> list[str]:
        between = self.code[left.extent.end.offset : right.extent.start.offset].decode()
        sign = re.sub(r"[()\s]", "", between)
        is_text = "basic_string" in cursor.type.get_canonical().spelling
        if sign not in OPERATORS or (is_text and sign in ("+", "+=")):
            return []
        begin, end = self.span(cursor)
        before = self.code[begin : left.extent.end.offset].decode()
        after = self.code[right.extent.start.offset : end].decode()
        return [f"{before}{between.replace(sign, other)}{after}" for other in OPERATORS[sign]]

    def calls(self, cursor: Cursor, children: list[Cursor]) -> list[str]:
        text = self.text(cursor)
        arguments = [
            argument
            for argument in cursor.get_arguments()
            if argument is not None and argument.extent.end.offset > argument.extent.start.offset
        ]
        if cursor.spelling.startswith("operator"):
            if len(arguments) == 2 and not text.startswith("operator"):
                return self.operators(cursor, arguments[0], arguments[1])
            return unary(text)
        changed = []
        if children and children[0].extent.start.offset == cursor.extent.start.offset:
            callee = self.text(children[0])
            changed = [f"{name}{text[len(callee) :]}" for name in renamed(callee)]
        if not text.endswith((")", "}")) or cursor.spelling in ("min", "max"):
            return changed  # the order of what min and max compare does not matter
        if cursor.spelling == "clamp":
            del arguments[0]  # nor which of a value and its lower bound is which
        for one, two in itertools.pairwise(arguments):
            a, b = self.text(one), self.text(two)
            if a != b and one.extent.end.offset <= two.extent.start.offset and same_type(one, two):
                begin = cursor.extent.start.offset
                pieces = (
                    self.code[begin : one.extent.start.offset].decode(),
                    b,
                    self.code[one.extent.end.offset : two.extent.start.offset].decode(),
                    a,
                    self.code[two.extent.end.offset : cursor.extent.end.offset].decode(),
                )
                changed.append("".join(pieces))
        return changed

    def in_macro(self, offset: int) -> bool:
        return any(begin <= offset < end for begin, end in self.macros)

    def span(self, cursor: Cursor) -> tuple[int, int]:
        return cursor.extent.start.offset, cursor.extent.end.offset

    def text(self, cursor: Cursor) -> str:
        begin, end = self.span(cursor)
        return self.code[begin:end].decode()

    def mutant(self, begin: int, end: int, mutated: str) -> Mutant:
        line = self.code.count(b"\n", 0, begin) + 1
        context = self.code.split(b"\n")[line - 1].decode().strip()
        original = self.code[begin:end].decode()
        return Mutant(self.name, begin, end, line, original, mutated, context)


def is_void(function: Cursor) -> bool:
    return function.kind in (CursorKind.CONSTRUCTOR, CursorKind.DESTRUCTOR) or (
        function.result_type.kind == TypeKind.VOID and not never_returns(function)
    )


def never_returns(function: Cursor | None) -> bool:
    """Whether a function is [[noreturn]]: libclang has no name for that attribute alone."""
    return (
        function is not None
        and function.result_type.kind == TypeKind.VOID
        and any(child.kind == CursorKind.UNEXPOSED_ATTR for child in function.get_children())
    )


def is_statement(parent: Cursor, number: int, count: int) -> bool:
    """Whether a child is a statement by itself."""
    if parent.kind == CursorKind.COMPOUND_STMT:
        return True
    if parent.kind == CursorKind.IF_STMT:
        return number > 0
    loops = (CursorKind.FOR_STMT, CursorKind.CXX_FOR_RANGE_STMT, CursorKind.WHILE_STMT)
    cases = (CursorKind.CASE_STMT, CursorKind.DEFAULT_STMT)
    return parent.kind in loops + cases and number + 1 == count


def numbers(text: str) -> list[str]:
    """The numbers that one is changed to."""
    if not re.fullmatch(r"-?[\d.][\w.'+-]*", text):
        return []
    plain = text.replace("'", "").rstrip("uUlLfF") if not text.startswith("0x") else text
    try:
        value = float(plain) if not plain.startswith("0x") else float(int(plain, 16))
    except ValueError:  # 5s
        return [f"({text} * 10)"]
    if value == 0:
        return [text.replace("0", "1", 1)] if "." not in text else ["1.0"]
    changed = [f"({text} * 10)"] if value != 1 else []
    if re.fullmatch(r"-?[\d']+[uUlL]*|0x\w+", text):
        changed.append(f"({text} + 1)")
    return [*changed, "0"]


def unary(text: str) -> list[str]:
    for sign, other in (("++", "--"), ("--", "++"), ("!", ""), ("-", "")):
        if text.startswith(sign) and not text.startswith(("!=", "->")):
            return [other + text[len(sign) :].lstrip()]
    return [text[:-2] + {"++": "--", "--": "++"}[text[-2:]]] if text.endswith(("++", "--")) else []


def renamed(name: str) -> list[str]:
    """The name of a pair's other part, `v.back` for `v.front`."""
    found = re.fullmatch(r"(?s)(.*(?:\.|->|::))(\w+)", name)
    return [found[1] + PAIRS[found[2]]] if found and found[2] in PAIRS else []


def same_type(one: Cursor, two: Cursor) -> bool:
    def bare(cursor: Cursor) -> Any:
        spelling = cursor.type.get_canonical().spelling
        return re.sub(r"\bconst\b|&|\s", "", spelling)

    return bool(bare(one) == bare(two) != "")
