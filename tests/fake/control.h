/* SPDX-License-Identifier: Apache-2.0 */
/* What a test says to the fake and asks it. Tests link the fake; the library under test opens it as its CUDA driver,
 * NVRTC and cuBLASLt, and finds none of these functions. Settings: README.md. */
#ifndef TESTS_FAKE_CONTROL_H
#define TESTS_FAKE_CONTROL_H

#pragma GCC visibility push(default)

/* Forgets everything (whatever was made with it is void) and starts anew with these settings, "" for the usual ones.
 * Ends the process with a message if the text is wrong. Without it the settings are $EIN_FAKE's. */
void fake_configure(const char *settings);

/* The k-th call of `name` from now (NULL: of any), counting from 1, returns `code` and has no effect; a call that frees,
 * destroys, waits or pops has it, and 700 to 719 there are a fault of the work under way, of which nothing more is
 * done. k = 0: none any more. */
void fake_fail(const char *name, long k, int code);
/* Whether that, or a fault below, has happened. */
int fake_failed(void);
/* Seeded faults of the library under test. The k-th call of `name` from now does nothing and says that all went well;
 * for calls that give nothing back. */
void fake_drop(const char *name, long k);
/* The k-th kernel from now that is launched or becomes a node gets its output pointers so many bytes on. */
void fake_shift(long k, long long bytes);

/* The device is lost: from now on every call on its context returns `code`. */
void fake_lose(int device, int code);

/* Calls since the settings were made, of a name without its version ("cuMemAlloc"), or of all (NULL). */
long fake_calls(const char *name);
/* The name of the k-th call, counting from 1; NULL: there was none. */
const char *fake_call(long k);

/* What was done wrong, a line each: accesses, races, broken rules. "" is nothing. */
const char *fake_reports(void);
/* Forgets these. */
void fake_reset_reports(void);
/* What is alive, a line each: memory, streams, events, graphs, libraries, programs, handles. "" is nothing. */
const char *fake_leaks(void);
/* Bytes of device memory in use. */
long long fake_used(int device);

#pragma GCC visibility pop

#endif
