/* The library of an imaginary chip, for the provider `ptr`: a driver and kernels that know pointers and sizes only.
   A kernel takes its op's arguments, where the results go, and sizes; it returns 0, or 1 for an index out of range. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef int64_t num;

/* The driver */

void *ptr_malloc(num nbytes) { return aligned_alloc(64, (size_t)(nbytes + 63) / 64 * 64); }
void ptr_free(void *p) { free(p); }
void ptr_memcpy(char *dst, num dst_offset, const char *src, num src_offset, num nbytes) {
    memcpy(dst + dst_offset, src + src_offset, (size_t)nbytes);
}

/* Both dtypes, float 0 and int64_t 1 */

num ptr_Fill(void *x, double value, num n, num kind, num whole) {
    for (num i = 0; i < n; i++)
        if (kind) ((num *)x)[i] = whole;
        else ((float *)x)[i] = (float)value;
    return 0;
}

num ptr_Cast(const void *x, num to, void *y, num n, num from) {
    if (from == to) memcpy(y, x, (size_t)n * (to ? sizeof(num) : sizeof(float)));
    else if (to) for (num i = 0; i < n; i++) ((num *)y)[i] = (num)((const float *)x)[i];
    else for (num i = 0; i < n; i++) ((float *)y)[i] = (float)((const num *)x)[i];
    return 0;
}

/* float, elementwise: operands shorter than the result repeat */

num ptr_AccumulateGrad(const float *x, double rate, float *y, num n) {
    for (num i = 0; i < n; i++) y[i] += (float)rate * x[i];
    return 0;
}

num ptr_AddForward(const float *a, const float *b, float *y, num na, num nb, num n) {
    for (num i = 0; i < n; i++) y[i] = a[i % na] + b[i % nb];
    return 0;
}

static num sum_rows(const float *x, num n, float *y, num cols, num accumulate) {
    for (num j = 0; j < cols; j++) {
        double sum = accumulate ? y[j] : 0;
        for (num i = j; i < n; i += cols) sum += x[i];
        y[j] = (float)sum;
    }
    return 0;
}

num ptr_AddBackward(const float *grad, const num *a_shape, const num *b_shape, float *da, float *db, num n, num na,
                    num nb) {
    (void)a_shape, (void)b_shape;
    return sum_rows(grad, n, da, na, 0) || sum_rows(grad, n, db, nb, 0);
}

num ptr_GeluForward(const float *x, const char *approximate, float *y, num n) {
    num exact = *approximate == 'n';
    for (num i = 0; i < n; i++) {
        double v = x[i];
        y[i] = (float)(v / 2 * (1 + (exact ? erf(v * M_SQRT1_2) : tanh(sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)))));
    }
    return 0;
}

num ptr_GeluBackward(const float *x, const float *grad, const char *approximate, float *dx, num n) {
    num exact = *approximate == 'n';
    for (num i = 0; i < n; i++) {
        double v = x[i], c = sqrt(2 / M_PI), t = tanh(c * (v + 0.044715 * v * v * v));
        double slope = exact ? (1 + erf(v * M_SQRT1_2)) / 2 + v * exp(-v * v / 2) / sqrt(2 * M_PI)
                             : (1 + t) / 2 + v / 2 * (1 - t * t) * c * (1 + 3 * 0.044715 * v * v);
        dx[i] = (float)(grad[i] * slope);
    }
    return 0;
}

/* float, matrices: x (n, in), weight (out, in), y (n, out) */

num ptr_LinearBackwardBias(const float *grad, float *dbias, num n, num out, num accumulate) {
    return sum_rows(grad, n * out, dbias, out, accumulate);
}

num ptr_LinearForward(const float *x, const float *w, const float *bias, float *y, num n, num in, num out) {
    for (num i = 0; i < n; i++)
        for (num o = 0; o < out; o++) {
            double sum = bias ? bias[o] : 0;
            for (num k = 0; k < in; k++) sum += (double)x[i * in + k] * w[o * in + k];
            y[i * out + o] = (float)sum;
        }
    return 0;
}

num ptr_LinearBackwardInput(const float *w, const float *grad, float *dx, num n, num in, num out) {
    for (num i = 0; i < n; i++)
        for (num k = 0; k < in; k++) {
            double sum = 0;
            for (num o = 0; o < out; o++) sum += (double)grad[i * out + o] * w[o * in + k];
            dx[i * in + k] = (float)sum;
        }
    return 0;
}

num ptr_LinearBackwardWeight(const float *x, const float *grad, float *dw, num n, num in, num out, num accumulate) {
    for (num o = 0; o < out; o++)
        for (num k = 0; k < in; k++) {
            double sum = accumulate ? dw[o * in + k] : 0;
            for (num i = 0; i < n; i++) sum += (double)grad[i * out + o] * x[i * in + k];
            dw[o * in + k] = (float)sum;
        }
    return 0;
}

/* Embeddings */

num ptr_EmbeddingForward(const num *index, const float *w, float *y, num n, num rows, num cols) {
    for (num i = 0; i < n; i++) {
        num r = index[i];
        if (r < 0 || r >= rows) return 1;
        memcpy(y + i * cols, w + r * cols, (size_t)cols * sizeof(float));
    }
    return 0;
}

num ptr_EmbeddingBackward(const num *index, const float *grad, num rows, float *dw, num n, num cols,
                          num accumulate) {
    for (num i = 0; i < n; i++)
        if (index[i] < 0 || index[i] >= rows) return 1;
    if (!accumulate) memset(dw, 0, (size_t)(rows * cols) * sizeof(float));
    for (num i = 0; i < n; i++)
        for (num j = 0; j < cols; j++) dw[index[i] * cols + j] += grad[i * cols + j];
    return 0;
}

/* Norms and losses over the last axis: x (n, cols) */

num ptr_LayerNormForward(const float *x, const float *w, const float *bias, double eps, float *y, float *mean,
                         float *rstd, num n, num cols) {
    for (num i = 0; i < n; i++, x += cols, y += cols) {
        double m = 0, var = 0;
        for (num j = 0; j < cols; j++) m += x[j];
        m /= (double)cols;
        for (num j = 0; j < cols; j++) var += (x[j] - m) * (x[j] - m);
        double r = 1 / sqrt(var / (double)cols + eps);
        for (num j = 0; j < cols; j++) y[j] = (float)((x[j] - m) * r * w[j] + (bias ? bias[j] : 0));
        mean[i] = (float)m;
        rstd[i] = (float)r;
    }
    return 0;
}

num ptr_LayerNormBackward(const float *x, const float *w, const float *mean, const float *rstd, const float *grad,
                             float *dx, float *dw, float *dbias, num n, num cols, num accumulate) {
    if (!accumulate) {
        memset(dw, 0, (size_t)cols * sizeof(float));
        memset(dbias, 0, (size_t)cols * sizeof(float));
    }
    for (num i = 0; i < n; i++, x += cols, grad += cols, dx += cols) {
        double g = 0, gh = 0, m = mean[i], r = rstd[i];
        for (num j = 0; j < cols; j++) {
            g += (double)grad[j] * w[j];
            gh += (double)grad[j] * w[j] * (x[j] - m) * r;
            dw[j] += (float)(grad[j] * (x[j] - m) * r);
            dbias[j] += grad[j];
        }
        for (num j = 0; j < cols; j++)
            dx[j] = (float)(r * ((double)grad[j] * w[j] - g / (double)cols - (x[j] - m) * r * gh / (double)cols));
    }
    return 0;
}

num ptr_CrossEntropyForward(const float *logits, const num *target, num ignore, double smoothing,
                            const char *reduction, float *loss, float *lse, num n, num cols) {
    double total = 0;
    num count = 0;
    for (num i = 0; i < n; i++, logits += cols) {
        num t = target[i], classes = 0;
        if (t != ignore && (t < 0 || t >= cols)) return 1;
        double top = logits[0], sum = 0, all = 0;
        for (num j = 1; j < cols; j++) top = fmax(top, logits[j]);
        for (num j = 0; j < cols; j++) sum += exp(logits[j] - top);
        for (num j = 0; j < cols; j++)
            if (logits[j] != -INFINITY) all += logits[j], classes++;
        double log_sum = top + log(sum);
        lse[i] = (float)log_sum;
        if (t == ignore) continue;
        count++;
        total += logits[t] == -INFINITY ? INFINITY : (1 - smoothing) * (log_sum - logits[t]);
        total += smoothing * (log_sum - all / (double)classes);
    }
    *loss = (float)(*reduction == 's' ? total : total / (double)count);
    return 0;
}

num ptr_CrossEntropyBackward(const float *grad, const float *logits, const num *target, const float *lse, num ignore,
                             double smoothing, const char *reduction, float *dlogits, num n, num cols) {
    num count = 0;
    for (num i = 0; i < n; i++) {
        num t = target[i];
        if (t != ignore && (t < 0 || t >= cols)) return 1;
        count += t != ignore;
    }
    if (*reduction == 's') count = 1;
    for (num i = 0; i < n; i++, logits += cols, dlogits += cols) {
        num t = target[i], classes = 0;
        double g = t == ignore ? 0 : *grad / (double)count;
        for (num j = 0; j < cols; j++) classes += logits[j] != -INFINITY;
        for (num j = 0; j < cols; j++) {
            double share = logits[j] == -INFINITY ? 0 : smoothing / (double)classes;
            dlogits[j] = (float)(g * (exp((double)logits[j] - lse[i]) - (1 - smoothing) * (j == t) - share));
        }
    }
    return 0;
}

/* Attention: qkv (B, T, [q heads | k heads | v heads] d) */

static double dot(const float *a, const float *b, num d) {
    double sum = 0;
    for (num i = 0; i < d; i++) sum += (double)a[i] * b[i];
    return sum;
}

num ptr_AttentionForward(const float *qkv, num heads, num kv_heads, num causal, float *y, float *lse, num B, num T,
                         num width) {
    num d = width / (heads + 2 * kv_heads);
    double *p = malloc((size_t)T * sizeof(double));
    for (num b = 0; b < B; b++)
        for (num h = 0; h < heads; h++)
            for (num t = 0; t < T; t++) {
                const float *rows = qkv + b * T * width, *q = rows + t * width + h * d;
                const float *k = rows + (heads + h * kv_heads / heads) * d, *v = k + kv_heads * d;
                num end = causal ? t + 1 : T;
                double top = -INFINITY, sum = 0;
                for (num s = 0; s < end; s++) top = fmax(top, p[s] = dot(q, k + s * width, d) / sqrt((double)d));
                for (num s = 0; s < end; s++) sum += exp(p[s] - top);
                lse[(b * heads + h) * T + t] = (float)(top + log(sum));
                for (num c = 0; c < d; c++) {
                    double total = 0;
                    for (num s = 0; s < end; s++) total += exp(p[s] - top) / sum * v[s * width + c];
                    y[((b * T + t) * heads + h) * d + c] = (float)total;
                }
            }
    free(p);
    return 0;
}

num ptr_AttentionBackward(const float *qkv, const float *y, const float *lse, const float *grad, num heads,
                          num kv_heads, num causal, float *dqkv, num B, num T, num width) {
    num d = width / (heads + 2 * kv_heads);
    double scale = 1 / sqrt((double)d);
    memset(dqkv, 0, (size_t)(B * T * width) * sizeof(float));
    for (num b = 0; b < B; b++)
        for (num h = 0; h < heads; h++)
            for (num t = 0; t < T; t++) {
                num q = (b * T + t) * width + h * d, row = ((b * T + t) * heads + h) * d;
                num end = causal ? t + 1 : T;
                double delta = dot(grad + row, y + row, d);
                for (num s = 0; s < end; s++) {
                    num k = (b * T + s) * width + (heads + h * kv_heads / heads) * d, v = k + kv_heads * d;
                    double p = exp(dot(qkv + q, qkv + k, d) * scale - lse[(b * heads + h) * T + t]);
                    double ds = p * (dot(grad + row, qkv + v, d) - delta) * scale;
                    for (num c = 0; c < d; c++) {
                        dqkv[q + c] += (float)(ds * qkv[k + c]);
                        dqkv[k + c] += (float)(ds * qkv[q + c]);
                        dqkv[v + c] += (float)(p * grad[row + c]);
                    }
                }
            }
    return 0;
}

/* Optimizers: lists of `count` tensors of sizes n[i] */

num ptr_ScaleInPlace(float **xs, double factor, num count, const num *n) {
    for (num t = 0; t < count; t++)
        for (num i = 0; i < n[t]; i++) xs[t][i] *= (float)factor;
    return 0;
}

num ptr_GlobalNorm(float **xs, float *norm, num count, const num *n) {
    double sum = 0;
    for (num t = 0; t < count; t++)
        for (num i = 0; i < n[t]; i++) sum += (double)xs[t][i] * xs[t][i];
    *norm = (float)sqrt(sum);
    return 0;
}

num ptr_AdamW(float **ps, float **gs, float **ms, float **vs, double lr, double b1, double b2, double eps,
              double decay, double step, num count, const num *n) {
    for (num t = 0; t < count; t++)
        for (num i = 0; i < n[t]; i++) {
            float *p = ps[t] + i, *g = gs[t] + i, *m = ms[t] + i, *v = vs[t] + i;
            *m = (float)(b1 * *m + (1 - b1) * *g);
            *v = (float)(b2 * *v + (1 - b2) * *g * *g);
            double update = *m / (1 - pow(b1, step)) / (sqrt(*v / (1 - pow(b2, step))) + eps);
            *p = (float)(*p * (1 - lr * decay) - lr * update);
        }
    return 0;
}
