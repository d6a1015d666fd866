/* SPDX-License-Identifier: Apache-2.0 */
/* The write into a state, in place, at a run-time position. */
#include "core/graph/views.h"

#include <inttypes.h>
#include <stdio.h>

/* The state as it was before the run, not updated so far. */
static ein_status check_state(graph *g, value state, const char **name)
{
    const value_info *v = &g->values.items[state];
    bool again = v->kind == VALUE_RESULT && g->nodes.items[v->owner].kind == OP_APPEND;
    if (again) { /* the result of an append: name the state it belongs to */
        state = g->nodes.items[v->owner].operands[0];
        v = &g->values.items[state];
    }
    if (v->kind != VALUE_LEAF || g->leaves.items[v->owner].kind != LEAF_STATE)
        REFUSE(EIN_INVALID, "state_append: operand 0 is not a state tensor");
    *name = g->leaves.items[v->owner].name;
    for (int i = 0; i < g->nodes.n; i++)
        again = again || (g->nodes.items[i].kind == OP_APPEND && g->nodes.items[i].operands[0] == state);
    if (again) REFUSE(EIN_INVALID, "state_append: state '%.80s' is updated twice", *name);
    return EIN_OK;
}

static ein_status check_rows(graph *g, const char *name, const dims *state, const dims *rows, int axis)
{
    dims other = *rows;
    if (rows->rank == state->rank) other.at[axis] = state->at[axis];
    if (!ein__dims_equal(state, &other))
        REFUSE(EIN_SHAPE, "state_append: state '%.80s' %s and rows %s differ in more than axis %d", name,
               ein__dims_text(*state).s, ein__dims_text(*rows).s, axis);
    if (rows->at[axis] > state->at[axis])
        REFUSE(EIN_SHAPE, "state_append: %" PRId64 " rows for state '%.80s' of %" PRId64, rows->at[axis],
               name, state->at[axis]);
    return EIN_OK;
}

static ein_status add_append(graph *g, const value *operands, int axis, ein_scalar position, value *out)
{
    node op;
    const char *name = "";
    dims state = ein__dims(g, operands[0]), rows = ein__dims(g, operands[1]);
    TRY(check_state(g, operands[0], &name));
    TRY(ein__check_same_type(g, "state_append", 2, operands));
    TRY(ein__check_axis(g, "state_append", state.rank, axis, &axis));
    TRY(check_rows(g, name, &state, &rows, axis));
    TRY(ein__node_start(g, &op, OP_APPEND, "state_append", 2, operands));
    TRY(ein__check_scalar(g, "state_append", position, &op.scalar));
    spec *s = &op.spec;
    ein__label_dims(s, 'd', &state);
    snprintf(s->labels[axis].name, sizeof s->labels[axis].name, "t");
    op.append_t = axis;
    op.append_s = ein__label_add(s, "s", rows.at[axis]);
    s->labels[op.append_s].whole = true;
    for (int i = 0; i < state.rank; i++) ein__term_label(s, &s->operands[1], i == axis ? op.append_s : i);
    ein__term_labels(s, &s->operands[0], 0, state.rank);
    ein__term_labels(s, &s->results[0], 0, state.rank);
    TRY(ein__bound_add(g, op.scalar, rows.at[axis], state.at[axis], name));
    return ein__node_add(g, &op, &state, NULL, out);
}

ein_tensor ein__op_state_append(ein_graph *g, ein_tensor state, ein_tensor rows, int axis, ein_scalar position)
{
    if (!ein__call_begin(g, "state_append", 2, (ein_tensor[]){state, rows})) return (ein_tensor){0};
    value operands[] = {ein__value(state), ein__value(rows)}, out = -1;
    return ein__call_end(g, "state_append", add_append(&g->g, operands, axis, position, &out), &out);
}
