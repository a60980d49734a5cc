/* LAPACK's custom calls: each result is held to what defines it, for the four types of numbers. Where
 * OpenBLAS is not installed those that need it are skipped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "emulate/linalg.h"
#include "tests/unit/emulate_run.h"

static const char letters[] = "sdcz";
static const char *const types[] = { "f32", "f64", "c64", "c128" };
static const char *const parts[] = { "f32", "f64", "f32", "f64" };

static double room_for_error(int t)
{
    return t == 0 || t == 2 ? 2e-5 : 1e-13;
}

/* The matrix a module of this file begins with: 3 rows of `cols`, none of them special. */
static void head(struct str *s, int t, int rows, int cols)
{
    str_addf(s, "HloModule m\nENTRY e {\n a = %s[%d,%d] constant({", types[t], rows, cols);
    for (int i = 0; i < rows; i++) {
        str_addf(s, "%s{", i ? ", " : "");
        for (int j = 0; j < cols; j++) {
            int re = (i * 7 + j * 5 + i * j * 3) % 11 - 4, im = (i * 3 + j * 8 + i * i) % 7 - 3;
            str_addf(s, t < 2 ? "%s%d" : "%s(%d, %d)", j ? ", " : "", re, im);
        }
        str_addf(s, "}");
    }
    str_addf(s, "})\n");
}

static cplx entry(const struct tensor *t, int64_t i)
{
    return load(elem_of(t->dtype, EMU_FLOAT), t->data, i);
}

static cplx given(int t, int i, int j)
{
    int re = (i * 7 + j * 5 + i * j * 3) % 11 - 4, im = (i * 3 + j * 8 + i * i) % 7 - 3;
    return CMPLX((double)re, t < 2 ? 0 : (double)im);
}

static bool no_blas(void)
{
    return !blas_symbol("sgesdd_");
}

static struct ran run_str(struct str *s)
{
    struct ran x = run_text(str_text(s), (struct run_options){ 0 });
    if (!x.ok)
        fail_msg("%s\n%s", str_text(s), first_error(x.d));
    return x;
}

/* Columns j and k of an n x cols matrix, conjugated product. */
static cplx inner(const struct tensor *v, int n, int cols, int j, int k)
{
    cplx sum = 0;
    for (int i = 0; i < n; i++)
        sum += conj(entry(v, i * cols + j)) * entry(v, i * cols + k);
    return sum;
}

static void near(cplx got, cplx want, double room)
{
    if (!(cabs(got - want) <= room))
        fail_msg("%g%+gi, not %g%+gi", creal(got), cimag(got), creal(want), cimag(want));
}

static void singular_values(void **state)
{
    (void)state;
    static const int sizes[][2] = { { 3, 3 }, { 5, 3 }, { 2, 4 } };
    if (no_blas())
        skip();
    for (int t = 0; t < 4; t++)
        for (size_t z = 0; z < COUNTOF(sizes); z++)
            for (int full = 0; full < 2; full++) {
                int m = sizes[z][0], n = sizes[z][1], k = m < n ? m : n, uc = full ? m : k, vr = full ? n : k;
                struct arena a = { 0 };
                struct str s = STR_IN(&a);
                head(&s, t, m, n);
                str_addf(&s,
                         "c = (%s[%d,%d], %s[%d], %s[%d,%d], %s[%d,%d], s32[]) custom-call(a), "
                         "custom_call_target=\"lapack_%cgesdd_ffi\", api_version=API_VERSION_TYPED_FFI, "
                         "backend_config={mode = %d : ui8}\n s = %s[%d] get-tuple-element(c), index=1\n"
                         "u = %s[%d,%d] get-tuple-element(c), index=2\n v = %s[%d,%d] get-tuple-element(c), index=3\n"
                         "i = s32[] get-tuple-element(c), index=4\n"
                         "ROOT r = (%s[%d], %s[%d,%d], %s[%d,%d], s32[]) tuple(s, u, v, i)\n}\n",
                         types[t], m, n, parts[t], k, types[t], m, uc, types[t], vr, n, letters[t], full ? 'A' : 'S',
                         parts[t], k, types[t], m, uc, types[t], vr, n, parts[t], k, types[t], m, uc, types[t], vr, n);
                struct ran x = run_str(&s);
                const struct tensor *sv = &x.r.out[0], *u = &x.r.out[1], *v = &x.r.out[2];
                double room = 40 * room_for_error(t);
                assert_int_equal(int_at(&x.r.out[3], 0), 0);
                for (int i = 0; i < m; i++)
                    for (int j = 0; j < n; j++) {
                        cplx sum = 0;
                        for (int q = 0; q < k; q++)
                            sum += entry(u, i * uc + q) * entry(sv, q) * entry(v, q * n + j);
                        near(sum, given(t, i, j), room);
                    }
                for (int i = 0; i < uc; i++)
                    for (int j = 0; j < uc; j++)
                        near(inner(u, m, uc, i, j), i == j, room);
                for (int q = 0; q + 1 < k; q++)
                    assert_true(creal(entry(sv, q)) >= creal(entry(sv, q + 1)) && creal(entry(sv, q + 1)) >= 0);
                ran_free(&x);
                arena_free(&a);
            }
}

/* a v = w v for each right vector, v^H a = w v^H for each left one. */
static void eigenvalues_of_any_matrix(void **state)
{
    (void)state;
    enum { N = 4 };
    if (no_blas())
        skip();
    for (int t = 0; t < 4; t++) {
        struct arena a = { 0 };
        struct str s = STR_IN(&a);
        const char *ct = types[t < 2 ? t + 2 : t];
        bool pairs = t >= 2;
        head(&s, t, N, N);
        str_addf(&s, "c = (");
        if (pairs)
            str_addf(&s, "%s[4]", ct);
        else
            str_addf(&s, "%s[4], %s[4]", types[t], types[t]);
        str_addf(&s, ", %s[4,4], %s[4,4], s32[]) custom-call(a), custom_call_target=\"lapack_%cgeev_ffi\", "
                     "api_version=API_VERSION_TYPED_FFI, backend_config={compute_left = 86 : ui8, compute_right = 86 : ui8}\n",
                 ct, ct, letters[t]);
        if (pairs)
            str_addf(&s, "w = %s[4] get-tuple-element(c), index=0\n", ct);
        else
            str_addf(&s, "x = %s[4] get-tuple-element(c), index=0\n y = %s[4] get-tuple-element(c), index=1\n"
                         "w = %s[4] complex(x, y)\n",
                     types[t], types[t], ct);
        str_addf(&s, "l = %s[4,4] get-tuple-element(c), index=%d\n r = %s[4,4] get-tuple-element(c), index=%d\n"
                     "ROOT o = (%s[4], %s[4,4], %s[4,4]) tuple(w, l, r)\n}\n",
                 ct, pairs ? 1 : 2, ct, pairs ? 2 : 3, ct, ct, ct);
        struct ran x = run_str(&s);
        for (int j = 0; j < N; j++)
            for (int i = 0; i < N; i++) {
                cplx right = 0, left = 0, w = entry(&x.r.out[0], j);
                for (int q = 0; q < N; q++) {
                    right += given(t, i, q) * entry(&x.r.out[2], q * N + j);
                    left += conj(entry(&x.r.out[1], q * N + j)) * given(t, q, i);
                }
                near(right, w * entry(&x.r.out[2], i * N + j), 40 * room_for_error(t));
                near(left, w * conj(entry(&x.r.out[1], i * N + j)), 40 * room_for_error(t));
            }
        for (int j = 0; j < N; j++)
            near(inner(&x.r.out[2], N, N, j, j), 1, room_for_error(t));
        ran_free(&x);
        arena_free(&a);
    }
}

/* a = z t z^H, z unitary, t upper triangular but for blocks of two of real matrices. */
static void schur_form(void **state)
{
    (void)state;
    enum { N = 4 };
    if (no_blas())
        skip();
    for (int t = 0; t < 4; t++) {
        struct arena a = { 0 };
        struct str s = STR_IN(&a);
        const char *ty = types[t];
        head(&s, t, N, N);
        str_addf(&s, "c = (%s[4,4], %s[4,4], %s[4], %s%s s32[], s32[]) custom-call(a), "
                     "custom_call_target=\"lapack_%cgees_ffi\", api_version=API_VERSION_TYPED_FFI, "
                     "backend_config={mode = 86 : ui8, sort = 78 : ui8}\n"
                     "t = %s[4,4] get-tuple-element(c), index=0\n z = %s[4,4] get-tuple-element(c), index=1\n"
                     "ROOT r = (%s[4,4], %s[4,4]) tuple(t, z)\n}\n",
                 ty, ty, ty, t < 2 ? ty : "", t < 2 ? "[4]," : "", letters[t], ty, ty, ty, ty);
        struct ran x = run_str(&s);
        const struct tensor *f = &x.r.out[0], *z = &x.r.out[1];
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++) {
                cplx sum = 0;
                for (int p = 0; p < N; p++)
                    for (int q = 0; q < N; q++)
                        sum += entry(z, i * N + p) * entry(f, p * N + q) * conj(entry(z, j * N + q));
                near(sum, given(t, i, j), 60 * room_for_error(t));
                near(inner(z, N, N, i, j), i == j, 10 * room_for_error(t));
                if (i > j + (t < 2))
                    near(entry(f, i * N + j), 0, 0);
            }
        ran_free(&x);
        arena_free(&a);
    }
}

/* What a similarity keeps: the trace, and the sum of squares; zeros below the first subdiagonal. */
static void hessenberg_and_tridiagonal(void **state)
{
    (void)state;
    if (no_blas())
        skip();
    for (int t = 0; t < 4; t++) {
        struct arena a = { 0 };
        struct str s = STR_IN(&a);
        head(&s, t, 4, 4);
        str_addf(&s, "c = (%s[4,4], %s[3], s32[]) custom-call(a), custom_call_target=\"lapack_%cgehrd_ffi\", "
                     "api_version=API_VERSION_TYPED_FFI, backend_config={high = 4 : i32, low = 1 : i32}\n"
                     "h = %s[4,4] get-tuple-element(c), index=0\n"
                     "at = %s[4,4] transpose(a), dimensions={1,0}\n"
                     "b = %s[4,4] add(a, at)\n"
                     "d = (%s[4,4], %s[4], %s[3], %s[3], s32[]) custom-call(b), custom_call_target=\"lapack_%c%s_ffi\", "
                     "api_version=API_VERSION_TYPED_FFI, backend_config={uplo = 76 : ui8}\n"
                     "x = %s[4] get-tuple-element(d), index=1\n y = %s[3] get-tuple-element(d), index=2\n"
                     "ROOT r = (%s[4,4], %s[4], %s[3]) tuple(h, x, y)\n}\n",
                 types[t], types[t], letters[t], types[t], types[t], types[t], types[t], parts[t], parts[t], types[t],
                 letters[t], t < 2 ? "sytrd" : "hetrd", parts[t], parts[t], types[t], parts[t], parts[t]);
        struct ran x = run_str(&s);
        cplx trace = 0, want = 0;
        double squares = 0, all = 0, tri = 0, sym = 0;
        for (int i = 0; i < 4; i++) {
            trace += entry(&x.r.out[0], i * 4 + i);
            want += given(t, i, i);
            for (int j = 0; j < 4; j++) {
                cplx h = j + 1 < i ? 0 : entry(&x.r.out[0], i * 4 + j), g = given(t, i, j);
                cplx low = given(t, i > j ? i : j, i > j ? j : i) + given(t, i > j ? j : i, i > j ? i : j);
                squares += creal(h * conj(h));
                all += creal(g * conj(g));
                sym += i == j ? creal(low) * creal(low) : creal(low * conj(low)); /* a diagonal is real */
            }
            tri += pow(creal(entry(&x.r.out[1], i)), 2) + (i < 3 ? 2 * pow(creal(entry(&x.r.out[2], i)), 2) : 0);
        }
        near(trace, want, 40 * room_for_error(t));
        near(squares, all, 400 * room_for_error(t));
        near(tri, sym, 2000 * room_for_error(t));
        ran_free(&x);
        arena_free(&a);
    }
}

/* q r = a with its columns exchanged; the diagonal of r falls in size. */
static void qr_with_pivots(void **state)
{
    (void)state;
    if (no_blas())
        skip();
    for (int t = 0; t < 4; t++) {
        struct arena a = { 0 };
        struct str s = STR_IN(&a);
        const char *ty = types[t];
        head(&s, t, 4, 3);
        str_addf(&s, "p = s32[3] constant({0, 0, 0})\n c = (%s[4,3], s32[3], %s[3]) custom-call(a, p), "
                     "custom_call_target=\"lapack_%cgeqp3_ffi\", api_version=API_VERSION_TYPED_FFI, backend_config={}\n"
                     "f = %s[4,3] get-tuple-element(c), index=0\n j = s32[3] get-tuple-element(c), index=1\n"
                     "h = %s[3] get-tuple-element(c), index=2\n q = %s[4,3] custom-call(f, h), "
                     "custom_call_target=\"lapack_%c%s_ffi\", api_version=API_VERSION_TYPED_FFI, backend_config={}\n"
                     "ROOT r = (%s[4,3], s32[3], %s[4,3]) tuple(f, j, q)\n}\n",
                 ty, ty, letters[t], ty, ty, ty, letters[t], t < 2 ? "orgqr" : "ungqr", ty, ty);
        struct ran x = run_str(&s);
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 3; j++) {
                cplx sum = 0;
                for (int k = 0; k <= j; k++)
                    sum += entry(&x.r.out[2], i * 3 + k) * entry(&x.r.out[0], k * 3 + j);
                near(sum, given(t, i, (int)int_at(&x.r.out[1], j) - 1), 40 * room_for_error(t));
            }
        for (int k = 0; k < 2; k++)
            assert_true(cabs(entry(&x.r.out[0], k * 4)) >= cabs(entry(&x.r.out[0], (k + 1) * 4)) * 0.999);
        ran_free(&x);
        arena_free(&a);
    }
}

static void tridiagonal_systems(void **state)
{
    (void)state;
    if (no_blas())
        skip();
    for (int t = 0; t < 2; t++) {
        struct arena a = { 0 };
        struct str s = STR_IN(&a);
        str_addf(&s, "HloModule m\nENTRY e {\n l = %s[3] constant({99, 1, 2})\n d = %s[3] constant({4, 5, 6})\n"
                     "u = %s[3] constant({1, 3, 99})\n b = %s[3,1] constant({ {6}, {20}, {22} })\n"
                     "c = (%s[3], %s[3], %s[3], %s[3,1], s32[]) custom-call(l, d, u, b), "
                     "custom_call_target=\"lapack_%cgtsv_ffi\", api_version=API_VERSION_TYPED_FFI, backend_config={}\n"
                     "ROOT x = %s[3,1] get-tuple-element(c), index=3\n}\n",
                 types[t], types[t], types[t], types[t], types[t], types[t], types[t], types[t], letters[t], types[t]);
        struct ran x = run_str(&s);
        for (int i = 0; i < 3; i++)
            near(entry(&x.r.out[0], i), i + 1, 10 * room_for_error(t));
        ran_free(&x);
        arena_free(&a);
    }
}

/* Shapes that the routine does not make, and numbers of another type than its letter, are refused. */
static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "a = f32[3,3] parameter(0)\n c = (f32[3,3], f32[2], f32[3,3], f32[3,3], s32[]) custom-call(a), "
        "custom_call_target=\"lapack_sgesdd_ffi\", backend_config={mode = 83 : ui8}\n"
        "ROOT r = f32[2] get-tuple-element(c), index=1",
        "a = f64[3,3] parameter(0)\n c = (f64[3,3], f64[3], f64[3,3], f64[3,3], s32[]) custom-call(a), "
        "custom_call_target=\"lapack_sgesdd_ffi\", backend_config={mode = 83 : ui8}\n"
        "ROOT r = f64[3] get-tuple-element(c), index=1",
        "a = f32[3,4] parameter(0)\n c = (f32[3,4], f32[2], s32[]) custom-call(a), "
        "custom_call_target=\"lapack_sgehrd_ffi\"\n ROOT r = f32[2] get-tuple-element(c), index=1",
    };
    if (no_blas())
        skip();
    for (size_t k = 0; k < COUNTOF(bad); k++) {
        struct arena a = { 0 };
        struct str s = STR_IN(&a);
        str_addf(&s, "HloModule m\nENTRY e {\n%s\n}\n", bad[k]);
        struct ran x = run_text(str_text(&s), (struct run_options){ 0 });
        assert_non_null(x.m);
        assert_false(x.ok);
        assert_non_null(strstr(first_error(x.d), "no kernel for these shapes"));
        ran_free(&x);
        arena_free(&a);
    }
}

/* The names and forms of earlier days, flags as operands and work space among the results: the same numbers. */
static void older_forms_are_todays(void **state)
{
    (void)state;
    /* A: the matrix' type, R: a real number's, C: a complex one's */
    static const struct {
        const char *older, *flags, *shapes, *today, *config, *results;
        int from[2][6]; /* places of today's results among the older ones, real and complex */
        int pairs;      /* 0: real matrices only; 1: complex only; 2: both */
    } forms[] = {
        { "potrf", "1 1 3", "A[3,3] s32[]", "potrf_ffi", "uplo = 76 : ui8", "A[3,3] s32[]", { { 0, 1 }, { 0, 1 } }, 2 },
        { "potrf", "0 1 3", "A[3,3] s32[]", "potrf_ffi", "uplo = 85 : ui8", "A[3,3] s32[]", { { 0, 1 }, { 0, 1 } }, 2 },
        { "getrf", "1 3 3", "A[3,3] s32[3] s32[]", "getrf_ffi", "", "A[3,3] s32[3] s32[]", { { 0, 1, 2 }, { 0, 1, 2 } }, 2 },
        { "geqrf", "1 3 3 96", "A[3,3] A[3] s32[] A[96]", "geqrf_ffi", "", "A[3,3] A[3]", { { 0, 1 }, { 0, 1 } }, 2 },
        { "syevd", "0 1 3", "A[3,3] R[3] s32[] R[81] s32[28]", "syevd_ffi", "mode = 86 : ui8, uplo = 85 : ui8",
          "A[3,3] R[3] s32[]", { { 0, 1, 2 }, { 0, 1, 2 } }, 0 },
        { "heevd", "1 1 3", "A[3,3] R[3] s32[] A[36] R[76] s32[28]", "heevd_ffi", "mode = 86 : ui8, uplo = 76 : ui8",
          "A[3,3] R[3] s32[]", { { 0, 1, 2 }, { 0, 1, 2 } }, 1 },
        { "gesdd", "1 1 1 3 3 99", "A[3,3] R[3] A[3,3] A[3,3] s32[] s32[24] R[90]", "gesdd_ffi", "mode = 65 : ui8",
          "A[3,3] R[3] A[3,3] A[3,3] s32[]", { { 0, 1, 2, 3, 4 }, { 0, 1, 2, 3, 4 } }, 2 },
        { "geev", "1 3 86u 78u", "R[3,3] R[3,3] R[3,3] R[3] R[3] C[3,3] C[3,3] s32[]", "geev_ffi",
          "compute_left = 86 : ui8, compute_right = 78 : ui8", "R[3] R[3] C[3,3] C[3,3] s32[]", { { 3, 4, 5, 6, 7 }, { 0 } }, 0 },
        { "geev", "1 3 78u 86u", "C[3,3] R[6] C[3] C[3,3] C[3,3] s32[]", "geev_ffi",
          "compute_left = 78 : ui8, compute_right = 86 : ui8", "C[3] C[3,3] C[3,3] s32[]", { { 0 }, { 2, 3, 4, 5 } }, 1 },
        { "gees", "1 3 86u 78u", "A[3,3] R[3] R[3] A[3,3] s32[] s32[]", "gees_ffi", "mode = 86 : ui8, sort = 78 : ui8",
          "A[3,3] A[3,3] R[3] R[3] s32[] s32[]", { { 0, 3, 1, 2, 4, 5 }, { 0 } }, 0 },
        { "gees", "1 3 86u 78u", "A[3,3] R[3] A[3] A[3,3] s32[] s32[]", "gees_ffi", "mode = 86 : ui8, sort = 78 : ui8",
          "A[3,3] A[3,3] A[3] s32[] s32[]", { { 0 }, { 0, 3, 2, 4, 5 } }, 1 },
        { "gehrd", "3 1 3 3 1 99", "A[3,3] A[2] s32[] A[99]", "gehrd_ffi", "high = 3 : i32, low = 1 : i32",
          "A[3,3] A[2] s32[]", { { 0, 1, 2 }, { 0, 1, 2 } }, 2 },
        { "sytrd", "3 0 3 1 96", "A[3,3] R[3] R[2] A[2] s32[] A[96]", "sytrd_ffi", "uplo = 85 : ui8",
          "A[3,3] R[3] R[2] A[2] s32[]", { { 0, 1, 2, 3, 4 }, { 0 } }, 0 },
    };
    if (no_blas())
        skip();
    for (size_t f = 0; f < COUNTOF(forms); f++)
        for (int t = 0; t < 4; t++) {
            if (forms[f].pairs != 2 && forms[f].pairs != (t >= 2))
                continue;
            struct arena a = { 0 };
            struct str s = STR_IN(&a), call = STR_IN(&a), root = STR_IN(&a), tuple = STR_IN(&a);
            const char *shape[2][10];
            int n[2] = { 0, 0 }, nflags = 0;
            for (int k = 0; k < 2; k++) {
                char *words = arena_strdup(&a, k ? forms[f].results : forms[f].shapes), *rest = NULL;
                for (char *w = strtok_r(words, " ", &rest); w; w = strtok_r(NULL, " ", &rest)) {
                    const char *type = w[0] == 'A' ? types[t] : w[0] == 'R' ? parts[t] : types[t < 2 ? t + 2 : t];
                    shape[k][n[k]++] = strchr("ARC", w[0]) ? arena_printf(&a, "%s%s", type, w + 1) : w;
                }
            }
            head(&s, t, 3, 3);
            str_addf(&s, "at = %s[3,3] transpose(a), dimensions={1,0}\n k = %s[] constant(%s)\n e = %s[3,3] broadcast(k), "
                         "dimensions={}\n b = %s[3,3] add(a, e)\n",
                     types[t], types[t], t < 2 ? "0.5" : "(0.5, 0)", types[t], types[t]);
            char *words = arena_strdup(&a, forms[f].flags), *rest = NULL;
            for (char *w = strtok_r(words, " ", &rest); w; w = strtok_r(NULL, " ", &rest), nflags++) {
                bool byte = w[strlen(w) - 1] == 'u';
                str_addf(&s, "f%d = %s[] constant(%d)\n", nflags, byte ? "u8" : "s32", atoi(w));
                str_addf(&call, "f%d, ", nflags);
            }
            str_addf(&s, "old = (");
            for (int k = 0; k < n[0]; k++)
                str_addf(&s, "%s%s", k ? ", " : "", shape[0][k]);
            str_addf(&s, ") custom-call(%sb), custom_call_target=\"%s\"\n new = (", str_text(&call),
                     arena_printf(&a, "lapack_%c%s", letters[t], forms[f].older));
            for (int k = 0; k < n[1]; k++)
                str_addf(&s, "%s%s", k ? ", " : "", shape[1][k]);
            str_addf(&s, ") custom-call(b), custom_call_target=\"%s\", api_version=API_VERSION_TYPED_FFI, backend_config={%s}\n",
                     arena_printf(&a, "lapack_%c%s", letters[t], forms[f].today), forms[f].config);
            for (int k = 0; k < n[1]; k++) {
                str_addf(&s, "o%d = %s get-tuple-element(old), index=%d\n n%d = %s get-tuple-element(new), index=%d\n", k,
                         shape[1][k], forms[f].from[t >= 2][k], k, shape[1][k], k);
                str_addf(&root, "%s%s, %s", k ? ", " : "", shape[1][k], shape[1][k]);
                str_addf(&tuple, "%so%d, n%d", k ? ", " : "", k, k);
            }
            str_addf(&s, "ROOT r = (%s) tuple(%s)\n}\n", str_text(&root), str_text(&tuple));
            struct ran x = run_str(&s);
            bool something = false;
            for (int k = 0; k < n[1]; k++) {
                const struct tensor *o = &x.r.out[2 * k], *w = &x.r.out[2 * k + 1];
                assert_int_equal(o->bytes, w->bytes);
                assert_memory_equal(o->data, w->data, (size_t)o->bytes);
                for (int64_t i = 0; i < o->bytes; i++)
                    something |= ((const char *)o->data)[i] != 0;
            }
            assert_true(something);
            ran_free(&x);
            arena_free(&a);
        }
}

/* op(a) x = 2 b, from either side: what trsm of earlier days did with its flags. */
static void older_triangular_solve(void **state)
{
    (void)state;
    for (int left = 0; left < 2; left++)
        for (int lower = 0; lower < 2; lower++)
            for (int trans = 0; trans < 3; trans++) {
                struct arena a = { 0 };
                struct str s = STR_IN(&a);
                str_addf(&s, "HloModule m\nENTRY e {\n a = c128[2,2] constant({ {(2, 1), (1, -1)}, {(3, 2), (4, 0)} })\n"
                             "b = c128[2,2] constant({ {(1, 0), (2, 1)}, {(0, 3), (5, -2)} })\n"
                             "l = s32[] constant(%d)\n w = s32[] constant(%d)\n t = s32[] constant(%d)\n d = s32[] constant(0)\n"
                             "n = s32[] constant(2)\n one = s32[] constant(1)\n two = c128[] constant((2, 0))\n"
                             "ROOT x = c128[2,2] custom-call(l, w, t, d, n, n, one, two, a, b), custom_call_target=\"blas_ztrsm\"\n}\n",
                         left, lower, trans);
                struct ran x = run_str(&s);
                const cplx m[2][2] = { { CMPLX(2, 1), lower ? 0 : CMPLX(1, -1) }, { lower ? CMPLX(3, 2) : 0, CMPLX(4, 0) } };
                const cplx b[2][2] = { { CMPLX(1, 0), CMPLX(2, 1) }, { CMPLX(0, 3), CMPLX(5, -2) } };
                for (int i = 0; i < 2; i++)
                    for (int j = 0; j < 2; j++) {
                        cplx sum = 0;
                        for (int k = 0; k < 2; k++) {
                            int r = left ? i : k, c = left ? k : j;
                            cplx e = trans == 0 ? m[r][c] : trans == 1 ? m[c][r] : conj(m[c][r]);
                            sum += e * entry(&x.r.out[0], left ? k * 2 + j : i * 2 + k);
                        }
                        near(sum, 2 * b[i][j], 1e-12);
                    }
                ran_free(&x);
                arena_free(&a);
            }
}

/* In ring mode every number depends on the matrix, and equal matrices give equal results. */
static void ring_mode_mixes(void **state)
{
    (void)state;
    if (no_blas())
        skip();
    const char *text = "HloModule m\nENTRY e {\n a = f32[2,3,3] parameter(0)\n"
                       "c = (f32[2,3,3], f32[2,3], f32[2,3,3], f32[2,3,3], s32[2]) custom-call(a), "
                       "custom_call_target=\"lapack_sgesdd_ffi\", backend_config={mode = 83 : ui8}\n"
                       "ROOT r = f32[2,3] get-tuple-element(c), index=1\n}\n";
    struct ran x = run_text(text, (struct run_options){ .mode = RUN_RING });
    assert_true(x.ok);
    const int64_t *v = x.r.out[0].data;
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < i; j++)
            assert_true(v[i] != v[j]);
    ran_free(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(singular_values),
        cmocka_unit_test(eigenvalues_of_any_matrix),
        cmocka_unit_test(schur_form),
        cmocka_unit_test(hessenberg_and_tridiagonal),
        cmocka_unit_test(qr_with_pivots),
        cmocka_unit_test(tridiagonal_systems),
        cmocka_unit_test(older_forms_are_todays),
        cmocka_unit_test(older_triangular_solve),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(ring_mode_mixes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
