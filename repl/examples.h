/* Examples of the table's rows: transcripts that the tests replay against the program. */
#ifndef GSPMD_REPL_EXAMPLES_H
#define GSPMD_REPL_EXAMPLES_H

#define EX_load NULL
#define EX_list NULL
#define EX_info NULL
#define EX_where NULL
#define EX_export NULL
#define EX_mesh NULL
#define EX_shard NULL
#define EX_constrain NULL
#define EX_unshard NULL
#define EX_set NULL
#define EX_undo NULL
#define EX_redo NULL
#define EX_save NULL
#define EX_restore NULL
#define EX_strategies NULL
#define EX_diff NULL
#define EX_show NULL
#define EX_why NULL
#define EX_conflicts NULL
#define EX_propagate NULL
#define EX_comms NULL
#define EX_blame NULL
#define EX_reshard NULL
#define EX_program NULL
#define EX_partition NULL
#define EX_doctor NULL
#define EX_run NULL
#define EX_verify NULL
#define EX_plot NULL
#define EX_expect NULL
#define EX_echo NULL
#define EX_time NULL
#define EX_alias NULL
#define EX_help NULL
#define EX_apropos NULL
#define EX_history NULL
#define EX_quit NULL

#endif
