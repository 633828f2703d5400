"""Which tests ``./test.sh`` leaves out, and why. ``./test.sh --all`` runs every test.

A test gets its mark here, or by the fixture that it uses; no file of tests marks its own. ``test_marks.py`` checks that
all that is named here is there.
"""

from __future__ import annotations

MARKS = {
    "real_data": "reads the real data of ../shared/data",
    "browser": "opens pages in Chromium",
    "docs": "runs the commands of the documents",
    "fuzz": "reads mutated or hostile files, a fixed number of them",
    "slow": "takes more than some two seconds",
}
OF_FIXTURE = {"shared_data": "real_data", "browser": "browser", "chromium": "browser"}
# File or file::function, without parameters.
OF_TEST = {
    "docs": (
        "test_development_walks.py::test_a_walk_of_the_page_works_and_touches_few_files",
        "test_docs.py::test_commands_in_the_documents_run",
        "test_docs.py::test_the_notebook_is_the_page_on_python_and_what_its_code_gives",
        "test_docs.py::test_the_scores_in_the_readme_are_those_that_the_demo_prints",
        "test_worker_pools.py::test_python_examples_of_the_page_run",
        "test_worker_pools.py::test_commands_of_the_page_run_with_the_address_of_a_cluster",
    ),
    "fuzz": (
        "test_damage.py::test_damaged_files_are_refused_or_give_the_right_pixels",
        "test_fuzz.py",
        "test_hostile_corpus.py::test_hostile_submissions_are_refused_as_they_must_be",
    ),
    "slow": (
        "test_alike.py::test_a_copy_is_told_on_the_terminal_and_the_page_of_organisers_alone",
        "test_archive.py",
        "test_copies.py::test_a_copy_of_the_reference_has_the_best_score_in_every_pair_of_formats",
        "test_boundaries.py::test_bands_are_what_erosion_in_scipy_takes_away",
        "test_bounds.py::test_the_best_share_of_five_million_pairs_is_that_of_sorted_values",
        "test_cli.py::test_the_number_of_workers_changes_no_byte",
        "test_complexity.py::test_reading_masks",
        "test_confidence.py::test_studentised_intervals_of_pooled_numbers_hold_the_truth_with_unequal_patients",
        "test_demo.py::test_the_demo_writes_the_same_results_again_with_another_number_of_workers",
        "test_leaderboard_page.py::test_a_page_stays_small",
        "test_spelling.py",
        "test_story.py",
        "test_scale.py::test_the_benchmark_finds_every_stage_and_measures_it",
        "test_worker_pools.py::test_a_call_that_is_killed_half_way_leaves_nobody_behind_and_the_next_one_goes_on",
        "test_worker_pools.py::test_a_cluster_that_loses_a_worker_half_way_makes_the_same_bytes",
        "test_worker_pools.py::test_a_submission_that_kills_every_worker_is_told_and_the_others_are_scored",
        "test_worker_pools.py::test_a_submission_that_kills_workers_alone_has_no_place",
        "test_worker_pools.py::test_a_worker_that_is_killed_at_a_task_is_no_fault_of_the_submission",
        "test_worker_pools.py::test_a_worker_that_is_lost_costs_a_second_try_and_nothing_else",
        "test_worker_pools.py::test_an_audit_by_an_executor_is_that_of_one_process",
        "test_worker_pools.py::test_an_executor_that_breaks_stops_the_call_and_the_next_one_goes_on",
        "test_worker_pools.py::test_any_executor_makes_the_bytes_of_one_process",
        "test_worker_pools.py::test_the_main_process_begins_and_is_joined_where_that_saves_time",
        "test_worker_pools.py::test_the_commands_take_the_address_of_a_cluster",
        "test_files_of_tools.py::test_compare_finds_out_what_they_are",
        "test_gaming.py::test_audit_with_tricks_says_what_pays",
        "test_gaming.py::test_the_numbers_of_the_column_for_classes_in_docs_are_those_of_the_simulation",
        "test_hints.py::test_score_gives_hints_wherever_it_is_read",
        "test_progress.py::test_a_lost_scheduler_is_one_sentence_and_the_same_command_goes_on",
        "test_progress.py::test_a_terminal_shows_a_bar_with_the_counts",
        "test_progress.py::test_waiting_for_workers_is_told_and_ends",
        "test_progress.py::test_workers_that_come_later_are_used",
        "test_install.py::test_programs_that_use_the_public_names_are_type_checked",
        "test_leaks.py::test_metrics_of_a_scored_submission_hold_nothing_of_single_cases",
        "test_leaks.py::test_no_mutated_submission_is_told_anything_of_the_reference",
        "test_leaks.py::test_no_rejected_submission_is_told_anything_of_the_reference",
        "test_mutants.py::test_every_mutant_can_be_made",
        "test_kept_references.py::test_a_third_submission_reads_no_reference_and_has_the_same_bytes",
        "test_kept_references.py::test_what_changed_is_read_again",
        "test_kept_references.py::test_what_has_just_changed_is_not_kept",
        "test_bounded_json.py::test_a_file_is_refused_in_pieces_exactly_if_it_is_refused_as_a_whole",
        "test_bounded_json.py::test_pieces_hold_the_records_of_the_file",
        "test_release.py::test_a_release_is_signed_and_anything_changed_is_seen",
        "test_report_command.py::test_the_page_is_the_same_whatever_the_workers",
        "test_scale.py::test_a_slide_of_ten_thousand_million_pixels_takes_memory_for_its_nuclei_alone",
        "test_signals.py::test_a_leaderboard_that_is_stopped_says_what_it_keeps",
        "test_signals.py::test_a_signal_in_any_phase_ends_everything_with_a_true_line",
        "test_sensitivity.py::test_every_measure_under_every_change_is_that_of_scipy",
        "test_sensitivity.py::test_workers_change_no_byte",
        "test_imports.py::test_stores_are_compared_alone_in_folders_and_in_a_zip",
        "test_install.py::test_the_command_that_the_line_of_a_missing_library_names_brings_it",
        "test_workers.py::test_a_limit_for_each_process_that_holds_a_case_changes_no_byte",
        "test_workers.py::test_limits_of_the_process_count_less_what_it_has",
        "test_workers.py::test_memory_too_small_for_one_case_is_told_and_nothing_is_written",
    ),
}
