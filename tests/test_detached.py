"""References whose header names the file of its data, as SimpleITK writes them; submissions never have such headers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import SimpleITK
from every_format import toml
from test_label_formats import LABELS

from evaluation.findings.errors import ChallengeBroken, SubmissionRejected
from evaluation.scoring.from_files import score_submission

RULES = {
    "format_version": 1,
    "preset": "dsb2018",
    "name": "detached",
    "reference": {"format": "label_image", "overlap": "keep", "overlap_scope": "image"},
    "submission": {"format": "label_image", "missing_case": "worst", "missing_class_file": "empty"},
}


def write(path: Path, *, spacing_um: float = 0.25, compressed: bool = False) -> None:
    image = SimpleITK.GetImageFromArray(LABELS)
    image.SetSpacing([spacing_um / 1000] * 2)
    path.parent.mkdir(exist_ok=True, parents=True)
    SimpleITK.WriteImage(image, str(path), useCompression=compressed)


def challenge(folder: Path, suffix: str, submitted: str = ".nrrd") -> Path:
    rules = {key: dict(value) if isinstance(value, dict) else value for key, value in RULES.items()}
    rules["reference"]["files"] = f"reference/{{case}}{suffix}"
    rules["submission"]["files"] = f"{{case}}{submitted}"
    (folder / "challenge.toml").write_text(toml(rules))
    height, width = LABELS.shape
    (folder / "cases.csv").write_text(f"case,group,height,width,spacing_um\na,a,{height},{width},0.25\n")
    return folder


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("suffix", [".mhd", ".nhdr"])
def test_a_detached_reference_is_that_of_both_files(suffix: str, compressed: bool, tmp_path: Path) -> None:
    write(tmp_path / "reference" / f"a{suffix}", compressed=compressed)
    assert len(list((tmp_path / "reference").iterdir())) == 2
    write(tmp_path / "submission" / "a.nrrd")
    result = score_submission(challenge(tmp_path, suffix), tmp_path / "submission", workers=1)
    assert result.value("detection.f1.pooled") == 1.0
    assert len(result.cases[0].reference.class_id) == len(np.unique(LABELS)) - 1


@pytest.mark.parametrize("suffix", [".mhd", ".nhdr"])
def test_a_submission_with_such_a_header_is_refused(suffix: str, tmp_path: Path) -> None:
    write(tmp_path / "reference" / f"a{suffix}")
    write(tmp_path / "submission" / f"a{suffix}")
    with pytest.raises(SubmissionRejected) as error:
        score_submission(challenge(tmp_path, suffix, suffix), tmp_path / "submission", workers=1)
    faults = [finding for finding in error.value.findings if finding.severity == "error"]
    assert {finding.code for finding in faults} == {"unsupported-format"}


@pytest.mark.parametrize("name", ["../secret.raw", "/etc/passwd", "LIST", "a%02d.raw 0 1 1", "", "a\0.raw", ".."])
@pytest.mark.parametrize("suffix", [".mhd", ".nhdr"])
def test_a_header_names_a_file_beside_it(suffix: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / "reference" / f"a{suffix}"
    write(path)
    data = next(other.name for other in path.parent.iterdir() if other != path)
    path.write_bytes(path.read_bytes().replace(data.encode(), name.encode()))
    write(tmp_path / "submission" / "a.nrrd")
    with pytest.raises(ChallengeBroken) as error:
        score_submission(challenge(tmp_path, suffix), tmp_path / "submission", workers=1)
    assert {finding.code for finding in error.value.findings} <= {"external-data", "unreadable-file"}


def test_the_spacing_of_a_reference_is_compared_too(tmp_path: Path) -> None:
    write(tmp_path / "reference" / "a.mhd", spacing_um=0.5)
    write(tmp_path / "submission" / "a.nrrd")
    with pytest.raises(ChallengeBroken, match="wrong-spacing"):
        score_submission(challenge(tmp_path, ".mhd"), tmp_path / "submission", workers=1)
