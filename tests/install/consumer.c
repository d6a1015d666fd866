/* SPDX-License-Identifier: Apache-2.0 */
/* A user's program, outside of the tree: prints the version and the shape of a sum of two tensors. */
#include <ein.h>
#include <stdio.h>

int main(void)
{
    const int64_t shape[2] = {2, 3};
    int64_t sum[EIN_MAX_RANK];
    ein_graph *g = NULL;
    if (ein_graph_create(&g) != EIN_OK) return 1;
    ein_tensor x = ein_input(g, "x", EIN_F32, 2, shape);
    if (ein_tensor_shape(g, ein_add(g, x, x), sum) != 2) return 1;
    printf("%s %dx%d\n", ein_version(), (int)sum[0], (int)sum[1]);
    ein_graph_free(g);
    return 0;
}
