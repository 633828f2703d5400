"""The command line, challenge.toml and cases.csv."""

from evaluation.findings.catalogue.explanation import Explanation

CHALLENGE: dict[str, Explanation] = {
    "missing-file": Explanation(
        title="A file that is needed is not there",
        why="The challenge is defined by challenge.toml, cases.csv and one reference per case; without one of them "
        "nothing can be scored.",
        fix="Put the file where the line says, or correct the pattern in challenge.toml.",
        example="[missing-file] challenge.toml: no such file; expected the file that defines the challenge. Run "
        "'evaluation init --preset NAME DIR' to make one.",
    ),
    "invalid-toml": Explanation(
        title="challenge.toml is not TOML",
        why="The file cannot be parsed, so no rule is known.",
        fix="Correct the line that is named; strings need quotes, lists need brackets.",
        example="[invalid-toml] challenge.toml: Invalid value (at line 5, column 11); expected TOML 1.0. Correct the "
        "line; texts need quotation marks.",
    ),
    "unknown-preset": Explanation(
        title="The preset does not exist",
        why="A preset is a published challenge kept as a file of this program.",
        fix="Choose one of 'evaluation presets'.",
        example="[unknown-preset] challenge.toml: preset: 'monusac'; expected 'conic2022', 'consep', 'dsb2018', "
        "'glas2015', 'hovernet', 'midog2021', 'monkey2024', 'monusac2020' or one of 7 more. "
        "Did you mean 'monusac2020'?",
    ),
    "unknown-key": Explanation(
        title="A key is not a rule",
        why="A misspelt rule that is silently ignored would change the scores.",
        fix="Correct or remove the key.",
        example="[unknown-key] challenge.toml: aggregation.units: a key that is not known; expected one of "
        "'class_present', 'undefined' or 'unit'. Did you mean 'unit'?",
    ),
    "missing-rule": Explanation(
        title="challenge.toml leaves a rule open",
        why="Nothing that changes a number has a silent default: another reader must be able to compute the same.",
        fix="Write the rule, or start from a preset that has it.",
        example="[missing-rule] challenge.toml: aggregation.unit: missing; expected a value, since every rule that "
        "can change a score must be written. Add the key, or start from a preset.",
    ),
    "invalid-rule": Explanation(
        title="A rule, or an option of a format, has a value that is not allowed",
        why="Each rule has a fixed set of values or a range.",
        fix="Use one of the values that the line lists.",
        example="[invalid-rule] challenge.toml: reference.overlap: 'paint'; expected 'keep', 'last', 'first', "
        "'smallest', 'class_order' or 'ignore'.",
    ),
    "contradictory-rules": Explanation(
        title="Two rules of challenge.toml contradict each other",
        why="One of them would have to be ignored silently.",
        fix="Change or remove one of the two keys that are named.",
        example="[contradictory-rules] challenge.toml: reference.overlap_scope: 'class' with overlap 'class_order'; "
        "expected 'image', since the order of the classes decides between classes.",
    ),
    "invalid-text": Explanation(
        title="A text file of the challenge cannot be read",
        why="challenge.toml and cases.csv are text in UTF-8; spreadsheet programs often write another encoding.",
        fix="Save the file as UTF-8.",
        example="[invalid-text] cases.csv: bytes that are not UTF-8 (the first at 40); expected text in UTF-8. Save "
        "it as 'CSV UTF-8' or plain UTF-8.",
    ),
    "no-challenge": Explanation(
        title="There is no folder at the path of the challenge",
        why="The challenge is a folder with challenge.toml, cases.csv and the reference.",
        fix="Correct the path after --challenge.",
        example="[no-challenge] 'my_chalenge': no such folder; expected the folder of a challenge.",
    ),
    "invalid-cases": Explanation(
        title="cases.csv cannot be used",
        why="cases.csv is the list of what is scored: every row needs a name and a size, every name only once.",
        fix="Correct the row that is named.",
        example="[invalid-cases] cases.csv, line 3: height '0'; expected a whole number of pixels, at least 1.",
    ),
    "no-outlines": Explanation(
        title="The reference has no outlines",
        why="'sensitivity' draws every nucleus a pixel larger, smaller or lower. Points and numbers of nuclei have no "
        "border that could lie elsewhere.",
        fix="Nothing to do: for points, the radius of the matching rule says how far they may lie apart.",
        example="[no-outlines] challenge.toml: reference.format: 'points_json', which has no outlines; expected "
        "outlines or label images. Points have no border: how far they may lie apart is the radius of the rule.",
    ),
    "file-exists": Explanation(
        title="A command would overwrite what is there",
        why="A challenge.toml that was edited by hand, or an earlier kit, is never replaced.",
        fix="Choose another folder, or remove what is there first.",
        example="[file-exists] 'my_challenge/challenge.toml': there already; expected a folder without it. Remove it "
        "first.",
    ),
    "cannot-write": Explanation(
        title="A folder cannot be written to",
        why="The results would be lost.",
        fix="Name another folder, or change the permissions of this one.",
        example="[cannot-write] 'results/first_try': not a directory; expected a folder to write to. Check its "
        "permissions and the space that is left, or name another folder.",
    ),
    "unreadable-image": Explanation(
        title="The size of an image cannot be read",
        why="'init' takes height and width from the header of the image beside each reference file, and 'convert' from "
        "that of the file itself.",
        fix="Copy the image again. For 'init', remove it and write the size into cases.csv by hand; for "
        "'convert', give the size with --size.",
        example="[unreadable-image] 'P1_1.svs': not an image that can be read; expected an SVS, TIFF or PNG file.",
    ),
    "missing-option": Explanation(
        title="Something is not given and cannot be known without",
        why="Without arguments 'score' uses the folders of the platform, which other machines do not have; "
        "'convert' needs the size of the image where the file does not tell it.",
        fix="Add the option that the line names.",
        example="[missing-option] --submission: not given, and there is no /input; expected a path. "
        "Add --submission PATH.",
    ),
    "missing-extra": Explanation(
        title="A part of the program is not installed",
        why="What pages, clusters and addresses of storage need is installed only where it is wanted; scoring needs "
        "none of it, and the image has none.",
        fix="Install the extra that the line names; './evaluate.sh' has that of reports.",
        example="[missing-extra] HTML report: 'jinja2' is not installed; expected the packages of the extra 'report'. "
        "Install them: pip install '.[report]' in the folder of this program.",
    ),
    "unknown-format": Explanation(
        title="There is no such format",
        why="Formats are named as in challenge.toml; several of them have the same suffix.",
        fix="Use one of the names that the line lists.",
        example="[unknown-format] --to: 'geojsn'; expected 'label_tiff', 'geojson', 'nary_mat', 'polygons_json', "
        "'points_json' or 'counts_csv'. Did you mean 'geojson'?",
    ),
    "unknown-code": Explanation(
        title="There is no such code",
        why="'explain' knows the codes in the square brackets of messages.",
        fix="Copy the code from the message, or list all with 'evaluation explain'.",
        example="[unknown-code] explain: 'unknown-clas'; expected one of the codes that 'evaluation explain' lists. "
        "Did you mean 'unknown-class'?",
    ),
    "worker-died": Explanation(
        title="A worker process ended without an answer",
        why="It was killed, as a rule because the machine ran out of memory. A result without its cases would be "
        "wrong, so none is written.",
        fix="Run again with '--workers 1', or with more memory.",
        example="[worker-died] one of 2 workers: ended without an answer, most often killed for memory; expected "
        "enough memory for all workers at once. Run again with '--workers 1' or with more memory.",
    ),
    "no-cluster": Explanation(
        title="A cluster or an executor does not work",
        why="Nobody answers at the address, its workers have another version of the program, which may come to other "
        "numbers, or it stopped before the work was done.",
        fix="Start the scheduler and its workers with the same version, or the same image, on every machine; "
        "docs/cluster.md shows how. What was complete is kept: the same command goes on.",
        example="[no-cluster] --cluster 'login1': no address of a scheduler; expected the address of a running Dask "
        "scheduler, such as tcp://login1:8786. docs/cluster.md shows how to start one.",
    ),
    "not-fetched": Explanation(
        title="What lies at an address of storage cannot be fetched",
        why="There is nothing at the address, it may not be read with these credentials, or the connection failed.",
        fix="Try the address with the tools of the storage; docs/cluster.md tells where credentials and options of "
        "fsspec come from.",
        example="[not-fetched] 'memory://submissions/alpha': nothing there; expected a folder or a file.",
    ),
}
