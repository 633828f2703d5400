"""CSV files, and tables of classes."""

from evaluation.findings.catalogue.explanation import Explanation

CSV_FILES: dict[str, Explanation] = {
    "invalid-csv": Explanation(
        title="A file is not CSV as it is read here",
        why="Rows that are torn apart, or cells that move to another column, would give other nuclei. CSV is text in "
        "UTF-8, with commas, as many cells in every row as in the header, and quotation marks only around whole cells.",
        fix="Write the file with a CSV library, or save it as 'CSV UTF-8' with commas.",
        example="[invalid-csv] 'nuclei.csv', line 3: 2 cells; expected 3, one for each column.",
    ),
    "missing-column": Explanation(
        title="A CSV file lacks a column",
        why="Columns are found by their names in the first line, so that their order cannot swap them.",
        fix="Add the column or correct its name. Upper and lower case are the same. The probabilities of the classes "
        "need a column for each class, or none.",
        example="[missing-column] 'points.csv': no such column among 'x' and 'yy'; expected a column 'y'. Did you mean "
        "'yy'?",
    ),
    "other-case": Explanation(
        title="A file has rows of another case",
        why="The file lies where the predictions of one case are expected; rows of other cases would be counted in it.",
        fix="Write the rows of each case into its own file.",
        example="[other-case] case 'case_017', 'case_017.csv', line 3: a row of 'case_018'; expected only rows of "
        "'case_017', the case that the file is for. Write the rows into the files of their cases.",
    ),
    "duplicate-row": Explanation(
        title="A case or an id has two rows",
        why="Which of them is meant cannot be known.",
        fix="Remove one of them.",
        example="[duplicate-row] case 'case_017', 'case_017_classes.csv', line 5: the id '2' again, with another "
        "class; expected one class for each id. Remove one of them.",
    ),
    "row-count": Explanation(
        title="A CSV file has more or fewer rows than there are cases",
        why="Without a column for the case the first row is the first case, and so on: with another number of rows "
        "they would be counted for other cases.",
        fix="Write a row for each case in their order, or add a column 'case'.",
        example="[row-count] 'counts.csv': 2 rows; expected 3, one for each case, in their order. If the rows are not "
        "in the order of the cases, add a column 'case'.",
    ),
    "invalid-count": Explanation(
        title="A count is not a whole number",
        why="It is the number of nuclei of a class in an image.",
        fix="Write whole numbers from 0; round what a regression gives.",
        example="[invalid-count] 'counts.csv', line 2: 'plasma' is '-1'; expected a whole number from 0 to "
        "1,000,000,000.",
    ),
    "invalid-class-table": Explanation(
        title="An entry of a class table has no usable id, or another form",
        why="The table gives the class of each label of the label image, by its number.",
        fix="Write the label as a whole number, and the class by its name.",
        example="[invalid-class-table] case 'case_017', 'case_017_classes.csv', line 2: the id 'nucleus 7'; expected "
        "a whole number from 1 to 10^18.",
    ),
}
