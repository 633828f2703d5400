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
# Files, or tests as file::function, that need what only Linux has: copies of processes, signals, limits, /proc.
OF_LINUX = (
    "test_complexity.py",
    "test_guard.py",
    "test_image_scripts.py",
    "test_marks.py",
    "test_other_systems.py",  # starts them itself
    "test_progress.py",
    "test_scale.py",
    "test_workers.py",
)
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
        "test_hostile_corpus.py::test_damaged_files_are_refused_or_give_the_right_pixels",
        "test_hostile_corpus.py::test_more_memory_than_the_limit_is_not_to_be_had",
        "test_hostile_corpus.py::test_mutated_files_are_read_or_refused_but_never_break_a_reader",
        "test_hostile_corpus.py::test_hostile_submissions_are_refused_as_they_must_be",
        "test_report_command.py::test_a_damaged_document_is_drawn_or_refused_and_never_breaks_the_program",
    ),
    "slow": (
        "test_alike.py::test_a_copy_is_told_on_the_terminal_and_the_page_of_organisers_alone",
        "test_archive.py",
        "test_bounded_json.py::test_a_file_is_refused_in_pieces_exactly_if_it_is_refused_as_a_whole",
        "test_bounded_json.py::test_pieces_hold_the_records_of_the_file",
        "test_metrics.py::test_the_best_share_of_five_million_pairs_is_that_of_sorted_values",
        "test_cli.py::test_closed_standard_streams_change_nothing",
        "test_cli.py::test_the_number_of_workers_changes_no_byte",
        "test_compare.py::test_scores_and_places_do_not_depend_on_the_other_models",
        "test_compare_cases.py::test_a_reader_who_closes_the_pipe_loses_no_file",
        "test_complexity.py::test_reading_a_format",
        "test_complexity.py::test_reading_masks",
        "test_confidence.py::test_studentised_intervals_of_few_groups_hold_the_truth",
        "test_confidence.py::test_studentised_intervals_of_pooled_numbers_hold_the_truth_with_unequal_patients",
        "test_copies.py::test_a_copy_of_the_reference_has_the_best_score_in_every_pair_of_formats",
        "test_copies.py::test_a_copy_of_the_reference_has_the_best_score_in_some_formats_under_every_preset",
        "test_demo.py::test_the_demo_writes_the_same_results_again_with_another_number_of_workers",
        "test_gaming.py::test_a_method_that_ranks_in_patients_gets_what_they_contribute",
        "test_gaming.py::test_macro_f1_follows_the_skill_in_naming_rare_classes_and_class_recall_pays_for_naming_them_in_vain",
        "test_gaming.py::test_the_numbers_of_the_column_for_classes_in_docs_are_those_of_the_simulation",
        "test_gaming.py::test_what_is_ranked_is_what_a_result_of_the_challenge_alone_has",
        "test_progress.py::test_a_finding_is_wrapped_at_the_width_of_a_terminal_and_is_one_line_elsewhere",
        "test_silence.py::test_init_leaderboard_and_audit_say_that_a_ranking_can_be_gamed",
        "test_imports.py::test_stores_are_compared_alone_in_folders_and_in_a_zip",
        "test_install.py::test_programs_that_use_the_public_names_are_type_checked",
        "test_install.py::test_the_command_that_the_line_of_a_missing_library_names_brings_it",
        "test_worker_pools.py",
        "test_workers.py::test_a_third_submission_reads_no_reference_and_has_the_same_bytes",
        "test_workers.py::test_what_changed_is_read_again",
        "test_leaderboard_page.py::test_a_page_stays_small",
        "test_leaks.py::test_metrics_of_a_scored_submission_hold_nothing_of_single_cases",
        "test_leaks.py::test_no_mutated_submission_is_told_anything_of_the_reference",
        "test_leaks.py::test_no_rejected_submission_is_told_anything_of_the_reference",
        "test_marks.py::test_every_mutant_can_be_made",
        "test_significance.py::test_equal_teams_differ_in_at_most_a_share_of_the_boards_that_is_the_level",
        "test_significance.py::test_wilcoxon_in_samples_is_nearly_that_of_the_samples",
        "test_progress.py::test_a_lost_scheduler_is_one_sentence_and_the_same_command_goes_on",
        "test_platform.py::test_the_example_algorithm_reads_its_input_and_its_output_is_scored",
        "test_platform.py::test_the_packs_of_the_platform_are_scored",
        "test_platform.py::test_the_wheel_in_a_kit_is_the_program",
        "test_evalutils.py::test_a_page_has_roc_curves_where_probabilities_of_classes_are_there",
        "test_progress.py::test_a_terminal_shows_a_bar_with_the_counts",
        "test_progress.py::test_waiting_for_workers_is_told_and_ends",
        "test_progress.py::test_workers_that_come_later_are_used",
        "test_other_systems.py::test_a_command_prints_and_writes_what_it_does_on_linux",
        "test_published_faults.py::test_both_agree_on_images_whose_ids_and_classes_are_those_of_the_reference",
        "test_install.py::test_a_release_is_signed_and_anything_changed_is_seen",
        "test_scale.py::test_a_slide_of_ten_thousand_million_pixels_takes_memory_for_its_nuclei_alone",
        "test_scale.py::test_the_benchmark_finds_every_stage_and_measures_it",
        "test_report_command.py::test_a_page_is_the_same_whatever_the_workers",
        "test_sensitivity.py::test_every_measure_under_every_change_is_that_of_scipy",
        "test_sensitivity.py::test_workers_change_no_byte",
        "test_progress.py::test_a_leaderboard_that_is_stopped_says_what_it_keeps",
        "test_progress.py::test_a_signal_in_any_phase_ends_everything_with_a_true_line",
        "test_docs.py::test_every_page_spells_a_metric_in_one_way",
        "test_demo.py::test_a_challenge_lives_from_plan_to_archive",
        "test_published_boards.py::test_stored_results_and_audits_leave_it_out",
        "test_workers.py::test_a_limit_for_each_process_that_holds_a_case_changes_no_byte",
        "test_workers.py::test_a_limit_that_hardly_holds_the_program_is_told_at_once",
        "test_workers.py::test_limits_of_the_process_count_less_what_it_has",
        "test_workers.py::test_memory_too_small_for_one_case_is_told_and_nothing_is_written",
    ),
}
