/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of `ein`. Each takes the words after its name and returns an exit code (args.h). */
#ifndef TOOLS_COMMANDS_H
#define TOOLS_COMMANDS_H

int command_run(int argc, char **argv);
int command_explain(int argc, char **argv);
int command_ops(int argc, char **argv);
int command_doctor(int argc, char **argv);
int command_cache(int argc, char **argv);
int command_demo(int argc, char **argv);

#endif
