"""The life of a challenge: the commands of docs/story.md, one after the other, and what they tell."""

from __future__ import annotations

import json
import random
import shlex
import shutil
from pathlib import Path

from evaluation.commands.main import run

ROOT = Path(__file__).resolve().parents[1]
FROZEN = ROOT / "tests" / "golden" / "frozen"


def commands() -> list[list[str]]:
    lines = (ROOT / "docs" / "story.md").read_text().splitlines()
    return [shlex.split(line)[1:] for line in lines if line.startswith("evaluation ")]


def made_challenge(folder: Path, kept: slice) -> list[str]:
    """Some cases of the frozen challenge, each a patient of its own; their names."""
    header, *rows = (line.split(",") for line in (FROZEN / "challenge/cases.csv").read_text().splitlines())
    rows = [header, *rows[kept]]
    folder.mkdir()
    shutil.copy(FROZEN / "challenge/challenge.toml", folder)
    (folder / "cases.csv").write_text(
        "\n".join(",".join([row[0], row[0] if n else row[1], *row[2:]]) for n, row in enumerate(rows)) + "\n"
    )
    for case, group in (row[:2] for row in rows[1:]):
        (folder / "reference" / case).mkdir(parents=True)
        shutil.copy(FROZEN / f"challenge/reference/{group}/{case}.xml", folder / "reference" / case)
    return [row[0] for row in rows[1:]]


def submit(folder: Path, team_of_case: dict[str, str]) -> None:
    for case, team in team_of_case.items():
        (source,) = (FROZEN / "submissions" / team).glob(f"*/{case}")
        shutil.copytree(source, folder / case / case)


def two_attempts(cases: list[str], *, week: int, better: int) -> None:
    """What the team ``weekly`` hands in: the better one of two methods in some of the cases."""
    of_case = {case: "namer" if place < better else "outliner" for place, case in enumerate(cases)}
    for attempt in "ab":
        submit(Path(f"submissions/weekly@{week}{attempt}"), of_case)


def test_a_challenge_lives_from_plan_to_archive(tmp_path: Path, monkeypatch, capfd) -> None:
    monkeypatch.chdir(tmp_path)
    cases, last_cases = made_challenge(Path("challenge"), slice(0, 6)), made_challenge(Path("last"), slice(6, 8))
    for team in ("finder", "namer", "outliner"):
        submit(Path("submissions", team), dict.fromkeys(cases, team))
    submit(Path("submissions/again"), dict.fromkeys(cases, "namer"))
    chance = random.Random(1)
    for attempt in range(20):
        submit(Path(f"submissions/lucky@{attempt:02}"), {case: chance.choice(["finder", "namer"]) for case in cases})
    two_attempts(cases, week=0, better=0)
    two_attempts(cases, week=1, better=4)
    for team in ("finder", "outliner"):
        shutil.copytree(f"submissions/{team}", f"pilot/{team}")
    for team in ("again", "finder", "namer", "outliner"):
        shutil.copytree(f"submissions/{team}", f"suspects/{team}")
    shutil.copytree("challenge", "corrected")
    path = Path("corrected/reference") / cases[0] / f"{cases[0]}.xml"
    text = path.read_text()
    start = text.index("<Region ", text.index("<Regions>"))
    path.write_text(text[:start] + text[text.index("</Region>", start) + len("</Region>") :])

    told: dict[str, str] = {}
    for arguments in commands():
        assert run(arguments) == 0, arguments
        told[" ".join(arguments[:1] + arguments[-1:])] = capfd.readouterr().out
        if arguments[0] == "register":
            shutil.copy("challenge/registration.json", "corrected")
        if arguments[0] == "rescore":
            two_attempts(cases, week=2, better=6)
            for team in Path("submissions").iterdir():
                method = team.name if team.name in ("finder", "outliner") else "namer"
                submit(Path("last_submissions", team.name), dict.fromkeys(last_cases, method))

    assert "the teams are made" in told["plan planned"] and Path("planned/challenge.toml").is_file()
    assert any("groups tell teams apart by 0.1" in text for text in told.values())
    board = json.loads(Path("published/leaderboard.json").read_text())
    assert board["registration"]["follows"] is True
    made = {team["team"]: team for team in board["attempts"]["teams"]}
    assert {name: of["made"] for name, of in made.items()} == {
        "again": 1, "finder": 1, "lucky": 20, "namer": 1, "outliner": 1, "weekly": 4
    }  # fmt: skip
    place = {team["name"]: team["position"] for team in board["teams"]}
    assert len(place) == 6 and place["again"] == place["namer"]
    assert max(made["lucky"]["inflation"]) > max(map(abs, made["finder"]["inflation"]))
    board_told = told["leaderboard best"]
    assert "'again' and 'namer' are nearly the same" in board_told
    assert "nearly" not in Path("published/leaderboard.json").read_text()
    entries = json.loads(Path("suspicion/tricks.json").read_text())["entries"]
    copies = {of["team"]: of["nearly_the_same_as"] for of in entries if of["nearly_the_same_as"]}
    assert copies == {"namer": "again"}
    assert "looks better than it is by about" in board_told and "; this board follows it." in board_told
    assert "; this board follows it." in told["rescore --report"]
    erratum = json.loads(Path("final/rescore.json").read_text())
    assert erratum["changed"]["cases"] == cases[:1] and erratum["changed"]["rules"] == []
    final = json.loads(Path("final/leaderboard.json").read_text())
    assert final["registration"]["follows"] is True
    assert {team["team"]: team["made"] for team in final["attempts"]["teams"]}["weekly"] == 6
    last = json.loads(Path("last_out/leaderboard.json").read_text())
    counted = [of["counts"] for of in final["attempts"]["teams"]]
    assert [of["counts"] for of in last["attempts"]["teams"]] == counted and len(last["teams"]) == 6
    assert [of["made"] for of in last["attempts"]["teams"]] == [1, 1, 20, 1, 1, 6]
    assert "It was not chosen by these cases" in told["leaderboard final"]
    assert told["verify submissions"].count("same to the byte") == 3 + 30 + 30
    assert "same to the digit: the ranking" in told["verify public.zip"]
