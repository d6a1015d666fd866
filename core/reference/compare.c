/* SPDX-License-Identifier: Apache-2.0 */
/* Is a result as good as a plain f32 evaluation? The norm sees errors that are everywhere; the worst row sees
 * one wrong row among a million right ones. */
#include <math.h>

#include "core/reference/reference.h"

/* Equal infinities are equal, also where only rounding to f32 makes the reference infinite. */
static double difference(double x, double reference)
{
    if (x == reference || (isnan(x) && isnan(reference))) return 0;
    if (isinf(x) && x == (double)(float)reference) return 0;
    if (isnan(x) || isnan(reference)) return INFINITY;
    return fabs(x - reference);
}

static double square_if_finite(double x) { return isfinite(x) ? x * x : 0; }

comparison ein__compare(const float *result, const double *f64, const double *f32, i64 rows, i64 width,
                        double tolerance)
{
    comparison c = {0, 0, false};
    double sum = 0, norm = 0;
    for (i64 r = 0; r < rows; r++) {
        double row_error = 0, row_plain = 0, row_norm = 0;
        for (i64 i = r * width; i < (r + 1) * width; i++) {
            double d = difference((double)result[i], f64[i]);
            row_error += d * d;
            row_plain += square_if_finite(difference(f32[i], f64[i]));
            row_norm += square_if_finite(f64[i]);
        }
        double bound = 8 * sqrt(row_plain) + 1e-6 * sqrt(row_norm);
        double worst = row_error > 0 ? sqrt(row_error) / bound : 0;
        if (worst > c.worst_row) c.worst_row = worst;
        sum += row_error;
        norm += row_norm;
    }
    c.norm_error = norm > 0 ? sqrt(sum / norm) : sqrt(sum);
    c.ok = c.norm_error < tolerance && c.worst_row <= 1;
    return c;
}
