/* SPDX-License-Identifier: Apache-2.0 */
/* libein: describe an AI computation on whole tensors; run it on all devices of a machine. */
#ifndef EIN_H
#define EIN_H

#include "ein/compile.h"
#include "ein/context.h"
#include "ein/graph.h"
#include "ein/op.h"
#include "ein/run.h"
#include "ein/status.h"
#include "ein/weights.h"

#endif
