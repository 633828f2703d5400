"""The made challenge, and the life of a challenge from command to command."""

from __future__ import annotations

import io
import json
import shlex
import shutil
from pathlib import Path

from scipy.io import loadmat

from benchmarks.demo_files import draw_demo
from evaluation.commands.main import run
from evaluation.folders.demo import DEMO, TEAMS, DemoPaths, run_demo

SHIPPED = Path(__file__).resolve().parents[1] / "ground_truth"


def files_below(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_shipped_files_are_what_the_generator_writes(demo: DemoPaths, tmp_path: Path) -> None:
    """MATLAB files by their contents: their bytes depend on the compression library."""
    draw_demo(tmp_path)
    drawn, shipped = files_below(tmp_path), files_below(demo.challenge.parent)
    assert list(map(contents, sorted(drawn.items()))) == list(map(contents, sorted(shipped.items())))
    ground_truth = {name: content for name, content in files_below(SHIPPED).items() if "leaderboard" not in name}
    assert ground_truth == files_below(demo.challenge)


def contents(file: tuple[str, bytes]) -> tuple[str, object]:
    name, content = file
    return name, loadmat(io.BytesIO(content))["n_ary_mask"].tolist() if name.endswith(".mat") else content


def test_the_shipped_files_are_small() -> None:
    assert sum(map(len, files_below(SHIPPED).values())) < 500_000
    assert DEMO.stat().st_size < 200_000


def test_the_demo_writes_the_same_results_again_with_another_number_of_workers(tmp_path: Path) -> None:
    for name, workers in (("once", 1), ("again", 2)):
        run_demo(tmp_path / name, workers=workers)
    once = files_below(tmp_path / "once")
    assert {"leaderboard.json", *(f"results/{team}/metrics.json" for team in TEAMS)} <= set(once)
    assert once == files_below(tmp_path / "again")


def test_another_seed_writes_other_nuclei(demo: DemoPaths, tmp_path: Path) -> None:
    draw_demo(tmp_path, seed=1)
    other = files_below(tmp_path / "challenge")
    changed = {name for name, content in other.items() if content != files_below(demo.challenge)[name]}
    assert changed == {name for name in files_below(demo.challenge) if name.endswith(".xml")}


def test_mat_files_hold_no_date(demo: DemoPaths) -> None:
    path = next(demo.submissions["finder"].glob("*/*/*/1.mat"))
    assert b"Created on" not in path.read_bytes()[:128]


# --- the life of a challenge: its commands, one after the other, and what they tell -----------------------------------


ROOT = Path(__file__).resolve().parents[1]
FROZEN = ROOT / "tests" / "golden" / "frozen"


COMMANDS = """\
sensitivity --challenge challenge --output studied
leaderboard --challenge challenge --submissions submissions --output published
leaderboard --challenge challenge --submissions suspects --output suspicion
leaderboard --challenge corrected --submissions submissions --output final --before published --report
leaderboard --challenge corrected --submissions submissions --output final --before published
leaderboard --challenge last --submissions last_submissions --output last_out
archive --challenge corrected --results final --output private.zip --creator "Doe, Jane" --date 2026-06-01 --private
archive --challenge corrected --results final --output public.zip --creator "Doe, Jane" --date 2026-06-01
verify private.zip --submissions submissions
verify public.zip
"""


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


def hand_in_weekly(cases: list[str], *, better: int) -> None:
    """What the team ``weekly`` hands in: the better one of two methods in some of the cases."""
    shutil.rmtree("submissions/weekly", ignore_errors=True)
    submit(Path("submissions/weekly"), {case: "namer" if n < better else "outliner" for n, case in enumerate(cases)})


def test_a_challenge_lives_from_plan_to_archive(tmp_path: Path, monkeypatch, capfd) -> None:
    monkeypatch.chdir(tmp_path)
    cases, last_cases = made_challenge(Path("challenge"), slice(0, 6)), made_challenge(Path("last"), slice(6, 8))
    for team in ("finder", "namer", "outliner"):
        submit(Path("submissions", team), dict.fromkeys(cases, team))
    submit(Path("submissions/again"), dict.fromkeys(cases, "namer"))
    hand_in_weekly(cases, better=0)
    for team in ("again", "finder", "namer", "outliner"):
        shutil.copytree(f"submissions/{team}", f"suspects/{team}")
    shutil.copytree("challenge", "corrected")
    path = Path("corrected/reference") / cases[0] / f"{cases[0]}.xml"
    text = path.read_text()
    start = text.index("<Region ", text.index("<Regions>"))
    path.write_text(text[:start] + text[text.index("</Region>", start) + len("</Region>") :])

    told: dict[str, str] = {}
    for arguments in map(shlex.split, COMMANDS.splitlines()):
        assert run(arguments) == 0, arguments
        told[" ".join(arguments[:1] + arguments[-1:])] = capfd.readouterr().out
        if arguments[-1] == "--report":
            erratum = json.loads(Path("final/leaderboard.json").read_text())
            hand_in_weekly(cases, better=6)
            for team in Path("submissions").iterdir():
                method = team.name if team.name in ("finder", "outliner") else "namer"
                submit(Path("last_submissions", team.name), dict.fromkeys(last_cases, method))

    assert Path("studied/sensitivity.json").is_file()
    board = json.loads(Path("published/leaderboard.json").read_text())
    place = {team["name"]: team["position"] for team in board["teams"]}
    assert len(place) == 5 and place["again"] == place["namer"]
    assert "of their outlines" not in told["leaderboard published"]  # with 'weekly', 3 of 10 pairs are
    assert "'again' and 'namer' share 100% of their outlines" in told["leaderboard suspicion"]
    before, now = ({team["name"]: team for team in document["teams"]} for document in (board, erratum))
    assert erratum["before"]["reference"] == {"cases": 6, "changed": [cases[0]]}
    assert erratum["before"]["challenge"] == erratum["challenge"]
    assert f"The reference has changed in 1 of 6 cases: {cases[0]}." in told["leaderboard --report"]
    for move in erratum["before"]["teams"]:
        name = move["name"]
        assert (move["before"], move["now"]) == (before[name]["position"], now[name]["position"])
        of_columns = zip(move["scores"], before[name]["columns"], now[name]["columns"], strict=True)
        assert all((one["before"], one["now"]) == (old["value"], new["value"]) for one, old, new in of_columns)
        assert any(one["before"] != one["now"] for one in move["scores"])
    assert erratum["before"]["teams"][0]["name"] == erratum["teams"][0]["name"]
    final = json.loads(Path("final/leaderboard.json").read_text())
    moved = {team["name"]: (team["before"], team["now"]) for team in final["before"]["teams"]}
    now = {team["name"]: team["position"] for team in final["teams"]}
    assert moved == {name: (place[name], now[name]) for name in place}
    assert any(before != now for before, now in moved.values())
    last = json.loads(Path("last_out/leaderboard.json").read_text())
    assert len(last["teams"]) == 5
    assert told["verify submissions"].count("same to the byte") == 4 + 5 + 5 + 5
    assert "same to the digit: the ranking" in told["verify public.zip"]
