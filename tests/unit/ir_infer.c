/* Shape inference, one good and at least one bad line for each operation that has a rule. */
#include "ir_build.h"

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    world_open(w);
    *state = w;
    (void)put_scalar_function(w, "add_f32", "add", "f32[]", "f32[]", "");
    (void)put_scalar_function(w, "add_s32", "add", "s32[]", "s32[]", "");
    (void)put_scalar_function(w, "less_f32", "compare", "f32[]", "pred[]", "direction=LT");
    comp_id c = comp(w, "neg_f32");
    (void)put_param(w, c, "x", 0, "f32[]");
    (void)put_named(w, c, "r", "negate", "f32[]", "x", "");
    comp_finish(w->m, c, (instr_id){ 0 });
    c = comp(w, "both"); /* (f32, s32, f32, s32) -> (f32, s32) */
    (void)put_param(w, c, "a", 0, "f32[]");
    (void)put_param(w, c, "b", 1, "s32[]");
    (void)put_param(w, c, "c", 2, "f32[]");
    (void)put_param(w, c, "d", 3, "s32[]");
    (void)put_named(w, c, "r", "tuple", "(f32[], s32[])", "a b", "");
    comp_finish(w->m, c, (instr_id){ 0 });
    c = comp(w, "sort2"); /* the comparator of two arrays */
    (void)put_param(w, c, "a", 0, "f32[]");
    (void)put_param(w, c, "b", 1, "f32[]");
    (void)put_param(w, c, "c", 2, "s32[]");
    (void)put_param(w, c, "d", 3, "s32[]");
    (void)put_named(w, c, "r", "compare", "pred[]", "a b", "direction=GT");
    comp_finish(w->m, c, (instr_id){ 0 });
    c = comp(w, "turn"); /* (s32, f32[4]) -> the same */
    (void)put_param(w, c, "p", 0, "(s32[], f32[4])");
    comp_finish(w->m, c, (instr_id){ 0 });
    c = comp(w, "test");
    (void)put_param(w, c, "p", 0, "(s32[], f32[4])");
    (void)put_const(w, c, "t", "pred[]", 1);
    comp_finish(w->m, c, (instr_id){ 0 });
    c = comp(w, "square");
    (void)put_param(w, c, "x", 0, "f32[4]");
    (void)put_named(w, c, "r", "multiply", "f32[4]", "x x", "");
    comp_finish(w->m, c, (instr_id){ 0 });
    c = comp(w, "length");
    (void)put_param(w, c, "x", 0, "f32[4]");
    (void)put_const(w, c, "r", "s32[]", 4);
    comp_finish(w->m, c, (instr_id){ 0 });
    return 0;
}

static int teardown(void **state)
{
    world_close(*state);
    free(*state);
    return 0;
}

/* op: opcode; operands: shapes with ; in between; result: what inference says, "-" when the text
 * decides, NULL: refused, with a message that contains `says`. declared: shape as given, where it
 * matters; "" = result. */
struct line {
    const char *op, *operands, *attrs, *result, *declared, *says;
};

#define CONV2 "dim_labels=b01f_01io->b01f"
#define SAME3 "window=3,1,1,1,1,1;3,1,1,1,1,1"
#define PASTE(a, b) a " " b

static const struct line lines[] = {
    /* elementwise */
    { "add", "f32[8,4];f32[8,4]{0,1}", "", "f32[8,4]", "", 0 },
    { "add", "f32[8,4];f32[8,5]", "", 0, "f32[8,4]", "f32[8,4] and f32[8,5]" },
    { "add", "f32[8];s32[8]", "", 0, "f32[8]", "same shape" },
    { "add", "f32[8];f32[]", "", 0, "f32[8]", "same shape" },
    { "add", "f32[8]", "", 0, "f32[8]", "takes 2 operands, but has 1" },
    { "add", "(f32[8]);(f32[8])", "", 0, "f32[8]", "must be an array" },
    { "and", "f32[8];f32[8]", "", 0, "f32[8]", "pred or an integer" },
    { "or", "pred[8];pred[8]", "", "pred[8]", "", 0 },
    { "shift-left", "pred[8];pred[8]", "", 0, "pred[8]", "an integer type" },
    { "maximum", "c64[2];c64[2]", "", 0, "c64[2]", "an order" },
    { "atan2", "s32[2];s32[2]", "", 0, "s32[2]", "float or complex" },
    { "complex", "f32[2];f32[2]", "", "c64[2]", "", 0 },
    { "complex", "f64[2];f64[2]", "", "c128[2]", "", 0 },
    { "complex", "f16[2];f16[2]", "", 0, "c64[2]", "f32 or f64" },
    { "exponential", "bf16[2,<=3]", "", "bf16[2,<=3]", "", 0 },
    { "exponential", "s32[2]", "", 0, "s32[2]", "float or complex" },
    { "floor", "c64[2]", "", 0, "c64[2]", "a float type" },
    { "not", "f32[2]", "", 0, "f32[2]", "pred or an integer" },
    { "popcnt", "u8[2]", "", "u8[2]", "", 0 },
    { "popcnt", "f32[2]", "", 0, "f32[2]", "an integer type" },
    { "negate", "pred[2]", "", 0, "pred[2]", "a number type" },
    { "abs", "c64[2]", "", "f32[2]", "", 0 },
    { "abs", "s8[2]", "", "s8[2]", "", 0 },
    { "abs", "pred[2]", "", 0, "pred[2]", "a number type" },
    { "real", "c128[2]", "", "f64[2]", "", 0 },
    { "imag", "s32[2]", "", 0, "s32[2]", "float or complex" },
    { "is-finite", "f32[2]", "", "pred[2]", "", 0 },
    { "is-finite", "s32[2]", "", 0, "pred[2]", "float or complex" },
    { "convert", "f32[2,3]", "", "bf16[2,3]", "bf16[2,3]", 0 },
    { "convert", "f32[2,3]", "", "bf16[2,3]", "bf16[3,2]", 0 },
    { "convert", "f32[2]", "", 0, "(f32[2])", "must be an array" },
    { "bitcast-convert", "f32[4]", "", "s32[4]", "s32[4]", 0 },
    { "bitcast-convert", "f32[4]", "", "u8[4,4]", "u8[4,4]", 0 },
    { "bitcast-convert", "u8[4,2]", "", "f16[4]", "f16[4]", 0 },
    { "bitcast-convert", "u8[4,3]", "", 0, "f16[4]", "must be 2" },
    { "bitcast-convert", "c64[4]", "", 0, "u64[4]", "cannot reinterpret" },
    { "compare", "f32[2];f32[2]", "direction=GE", "pred[2]", "", 0 },
    { "compare", "f32[2];f32[2]", "", 0, "pred[2]", "direction= is missing" },
    { "compare", "f32[2];f32[2]", "direction=XX", 0, "pred[2]", "must be EQ" },
    { "compare", "c64[2];c64[2]", "direction=LT", 0, "pred[2]", "no order" },
    { "select", "pred[2];f32[2];f32[2]", "", "f32[2]", "", 0 },
    { "select", "pred[];f32[2];f32[2]", "", "f32[2]", "", 0 },
    { "select", "pred[3];f32[2];f32[2]", "", 0, "f32[2]", "operand 0 must be a scalar" },
    { "select", "s32[2];f32[2];f32[2]", "", 0, "f32[2]", "must be pred" },
    { "select", "pred[2];f32[2];f16[2]", "", 0, "f32[2]", "same shape" },
    { "clamp", "f32[];f32[2];f32[2]", "", "f32[2]", "", 0 },
    { "clamp", "f32[];f32[2];f32[3]", "", 0, "f32[2]", "operand 2 must be a scalar" },
    { "clamp", "s32[];f32[2];f32[2]", "", 0, "f32[2]", "types must be equal" },
    { "map", "f32[3];f32[3]", "dimensions={0} to_apply=less_f32", "pred[3]", "", 0 },
    { "map", "f32[3]", "dimensions={0} to_apply=less_f32", 0, "pred[3]", "must take 1 parameters" },
    { "map", "s32[3];s32[3]", "dimensions={0} to_apply=less_f32", 0, "pred[3]", "must be a scalar of" },
    { "map", "f32[3]", "dimensions={0}", 0, "f32[3]", "to_apply= is missing" },
    { "iota", "", "iota_dimension=1", "-", "s32[2,3]", 0 },
    { "iota", "", "", 0, "s32[3]", "iota_dimension= is missing" },
    { "reduce-precision", "f32[4]", "exponent_bits=5 mantissa_bits=10", "f32[4]", "", 0 },
    { "reduce-precision", "f32[4]", "exponent_bits=0 mantissa_bits=10", 0, "f32[4]", "1 exponent bit" },
    { "custom-call", "f32[4]", "custom_call_target=\"f\"", "-", "f32[4]", 0 },
    { "custom-call", "f32[4]", "", 0, "f32[4]", "custom_call_target= is missing" },
    { "rng-bit-generator", "u64[2]", "algorithm=rng_philox", "-", "(u64[2], u32[4])", 0 },
    { "rng-bit-generator", "u64[2]", "algorithm=rng_philox", 0, "(u64[3], u32[4])", "the state u64[2]" },
    { "custom-call", "f32[4]", "custom_call_target=\"Sharding\"", "f32[4]", "", 0 },
    { "custom-call", "f32[4];f32[4]", "custom_call_target=\"Sharding\"", 0, "f32[4]", "one operand, not 2" },
    { "rng-bit-generator", "u64[2]", "algorithm=rng_dice", 0, "(u64[2], u32[4])", "rng_dice" },
    { "set-dimension-size", "f32[4];s32[2]", "dimensions={0}", 0, "f32[4]", "must be a scalar" },
    { "iota", "", "iota_dimension=2", 0, "s32[2,3]", "rank 2" },
    { "iota", "", "", 0, "s32[2,3]", "iota_dimension= is missing" },
    { "iota", "", "", 0, "s32[]", "at least one dimension" },
    { "iota", "", "iota_dimension=0", 0, "pred[2]", "cannot be pred" },
    { "partition-id", "", "", "u32[]", "", 0 },
    { "stochastic-convert", "f32[2];u32[2]", "", "bf16[2]", "bf16[2]", 0 },
    { "stochastic-convert", "f32[2];u32[3]", "", 0, "bf16[2]", "same shape" },

    /* data movement */
    { "broadcast", "f32[3]", "dimensions={1}", "f32[2,3]", "f32[2,3]", 0 },
    { "broadcast", "f32[]", "", "f32[2,3]", "f32[2,3]", 0 },
    { "broadcast", "f32[3]", "dimensions={0}", 0, "f32[2,3]", "sizes are 3 and 2" },
    { "broadcast", "f32[3]", "", 0, "f32[2,3]", "places 0 dimensions" },
    { "broadcast", "f32[3]", "dimensions={2}", 0, "f32[2,3]", "rank 2" },
    { "broadcast", "f32[3,3]", "dimensions={1,1}", 0, "f32[2,3]", "dimension 1 twice" },
    { "broadcast", "f64[]", "", "f64[16,3]", "s64[16,3]", 0 },
    { "reshape", "f32[8,4]", "", "f32[32]", "f32[32]", 0 },
    { "reshape", "f32[8,4]", "", 0, "f32[31]", "32 elements of f32[8,4] cannot become the 31" },
    { "transpose", "f32[2,3,4]", "dimensions={2,0,1}", "f32[4,2,3]", "", 0 },
    { "transpose", "f32[2,3,4]", "dimensions={2,0}", 0, "f32[4,2]", "permutation" },
    { "transpose", "f32[2,3]", "dimensions={0,0}", 0, "f32[2,2]", "twice" },
    { "reverse", "f32[2,3]", "dimensions={1}", "f32[2,3]", "", 0 },
    { "reverse", "f32[2,3]", "dimensions={2}", 0, "f32[2,3]", "rank 2" },
    { "concatenate", "f32[2,3];f32[2,4]", "dimensions={1}", "f32[2,7]", "", 0 },
    { "concatenate", "f32[2,3];f32[1,4]", "dimensions={1}", 0, "f32[2,7]", "does not fit behind" },
    { "concatenate", "f32[2];s32[2]", "dimensions={0}", 0, "f32[4]", "does not fit behind" },
    { "concatenate", "f32[2,3]", "dimensions={0,1}", 0, "f32[2,3]", "one dimension" },
    { "concatenate", "f32[2,3]", "", 0, "f32[2,3]", "dimensions= is missing" },
    { "concatenate", "s8[9000000000000000000];s8[9000000000000000000]", "dimensions={0}", 0, "s8[1]",
      "does not fit in 64 bits" },
    { "pad", "f32[2,3];f32[]", "padding={1,2,0,-1,0,1}", "f32[5,4]", "", 0 },
    { "pad", "f32[0];f32[]", "padding={1,1,5}", "f32[2]", "", 0 },
    { "pad", "f32[2];f32[]", "padding={-3,0,0}", 0, "f32[1]", "cannot lose 3" },
    { "pad", "f32[2];f32[]", "padding={0,0,-1}", 0, "f32[1]", "negative" },
    { "pad", "f32[2,2];f32[]", "padding={0,0,0}", 0, "f32[2,2]", "describes 1 dimensions" },
    { "pad", "f32[2];s32[]", "padding={0,0,0}", 0, "f32[2]", "scalar of type f32" },
    { "pad", "f32[2];f32[1]", "padding={0,0,0}", 0, "f32[2]", "scalar of type f32" },
    { "pad", "f32[3];f32[]", "padding={0,0,9223372036854775807}", 0, "f32[2]", "64 bits" },
    { "slice", "f32[10,3]", "slice={1,8,3,0,3,1}", "f32[3,3]", "", 0 },
    { "slice", "f32[10]", "slice={1,11,1}", 0, "f32[10]", "no part of dimension 0, whose size is 10" },
    { "slice", "f32[10]", "slice={3,2,1}", 0, "f32[1]", "no part" },
    { "slice", "f32[10]", "slice={0,2,0}", 0, "f32[1]", "must be positive" },
    { "slice", "f32[10,3]", "slice={0,2,1}", 0, "f32[2,3]", "describes 1 dimensions" },
    { "dynamic-slice", "f32[8,4];s32[];s32[]", "dynamic_slice_sizes={2,4}", "f32[2,4]", "", 0 },
    { "dynamic-slice", "f32[8,4];s32[2]", "dynamic_slice_sizes={2,4}", "f32[2,4]", "", 0 },
    { "dynamic-slice", "f32[8,4];s32[]", "dynamic_slice_sizes={2,4}", 0, "f32[2,4]", "1 start indices" },
    { "dynamic-slice", "f32[8,4];s32[3]", "dynamic_slice_sizes={2,4}", 0, "f32[2,4]", "hold 2" },
    { "dynamic-slice", "f32[8];f32[]", "dynamic_slice_sizes={2}", 0, "f32[2]", "integer" },
    { "dynamic-slice", "f32[8];s32[]", "dynamic_slice_sizes={9}", 0, "f32[9]", "cannot take 9 of the 8" },
    { "dynamic-slice", "f32[8];s32[]", "", 0, "f32[8]", "has 0 sizes" },
    { "dynamic-update-slice", "f32[8,4];f32[2,4];s32[];u32[]", "", "f32[8,4]", "", 0 },
    { "dynamic-update-slice", "f32[8,4];f32[2,5];s32[];s32[]", "", 0, "f32[8,4]", "does not fit into" },
    { "dynamic-update-slice", "f32[8];f16[2];s32[]", "", 0, "f32[8]", "does not fit into" },
    { "gather", "f32[10,4];s32[6,1]",
      "offset_dims={1} collapsed_slice_dims={0} start_index_map={0} index_vector_dim=1 slice_sizes={1,4}",
      "f32[6,4]", "", 0 },
    { "gather", "f32[10,4];s32[6]",
      "offset_dims={1} collapsed_slice_dims={0} start_index_map={0} index_vector_dim=1 slice_sizes={1,4}",
      "f32[6,4]", "", 0 },
    { "gather", "f32[3,10,4];s32[3,6,1]",
      "offset_dims={2} collapsed_slice_dims={1} start_index_map={1} operand_batching_dims={0} "
      "start_indices_batching_dims={0} index_vector_dim=2 slice_sizes={1,1,4}",
      "f32[3,6,4]", "", 0 },
    { "gather", "f32[10,4];s32[6,2]",
      "offset_dims={1} collapsed_slice_dims={0} start_index_map={0} index_vector_dim=1 slice_sizes={1,4}",
      0, "f32[6,4]", "an index vector has 2" },
    { "gather", "f32[10,4];s32[6,1]",
      "offset_dims={1} collapsed_slice_dims={0} start_index_map={0} index_vector_dim=1 slice_sizes={2,4}",
      0, "f32[6,4]", "collapsed or batch" },
    { "gather", "f32[10,4];s32[6,1]",
      "offset_dims={1} collapsed_slice_dims={0} start_index_map={0} index_vector_dim=1 slice_sizes={1,5}",
      0, "f32[6,4]", "size 5 of dimension 1 does not fit" },
    { "gather", "f32[10,4];s32[6,1]",
      "offset_dims={1,0} start_index_map={0} index_vector_dim=1 slice_sizes={1,4}", 0, "f32[6,4]",
      "ascending" },
    { "gather", "f32[10,4];f32[6,1]",
      "offset_dims={1} collapsed_slice_dims={0} start_index_map={0} index_vector_dim=1 slice_sizes={1,4}",
      0, "f32[6,4]", "integer" },
    { "gather", "f32[10,4];s32[6,1]",
      "offset_dims={1} start_index_map={0} index_vector_dim=1 slice_sizes={1,4}", 0, "f32[6,4]",
      "name 1 dimensions together" },
    { "gather", "f32[10,4];s32[6,1]",
      "offset_dims={1} collapsed_slice_dims={0} start_index_map={0} index_vector_dim=3 slice_sizes={1,4}",
      0, "f32[6,4]", "index_vector_dim=3" },
    { "gather", "f32[3,10,4];s32[2,6,1]",
      "offset_dims={2} collapsed_slice_dims={1} start_index_map={1} operand_batching_dims={0} "
      "start_indices_batching_dims={0} index_vector_dim=2 slice_sizes={1,1,4}",
      0, "f32[3,6,4]", "its partner in the indices 2" },
    { "scatter", "f32[10,4];s32[6,1];f32[6,4]",
      "update_window_dims={1} inserted_window_dims={0} scatter_dims_to_operand_dims={0} "
      "index_vector_dim=1 to_apply=add_f32",
      "f32[10,4]", "", 0 },
    { "scatter", "f32[10];s32[10];s32[6,1];f32[6];s32[6]",
      "inserted_window_dims={0} scatter_dims_to_operand_dims={0} index_vector_dim=1 to_apply=both",
      "(f32[10], s32[10])", "", 0 },
    { "scatter", "f32[10,4];s32[6,1];f32[5,4]",
      "update_window_dims={1} inserted_window_dims={0} scatter_dims_to_operand_dims={0} "
      "index_vector_dim=1 to_apply=add_f32",
      0, "f32[10,4]", "must have the size 6" },
    { "scatter", "f32[10,4];s32[6,1];f32[6,5]",
      "update_window_dims={1} inserted_window_dims={0} scatter_dims_to_operand_dims={0} "
      "index_vector_dim=1 to_apply=add_f32",
      0, "f32[10,4]", "larger than dimension 1" },
    { "scatter", "f32[10,4];s32[6,1];f32[6]",
      "inserted_window_dims={0,1} scatter_dims_to_operand_dims={0} index_vector_dim=1 "
      "update_window_dims={0} to_apply=add_f32",
      0, "f32[10,4]", "name 3 dimensions together" },
    { "scatter", "f32[10];s32[6,1];s32[6]",
      "inserted_window_dims={0} scatter_dims_to_operand_dims={0} index_vector_dim=1 to_apply=add_f32", 0,
      "f32[10]", "types must be equal" },
    { "scatter", "f32[10];s32[6,1];f32[6];f32[6]",
      "inserted_window_dims={0} scatter_dims_to_operand_dims={0} index_vector_dim=1 to_apply=add_f32", 0,
      "f32[10]", "n operands, indices and n updates" },
    { "sort", "f32[3,5]", "dimensions={1} to_apply=less_f32", "f32[3,5]", "", 0 },
    { "sort", "f32[5];s32[5]", "dimensions={0} to_apply=sort2", "(f32[5], s32[5])", "", 0 },
    { "sort", "s32[5];f32[5]", "dimensions={0} to_apply=sort2", 0, "(s32[5], f32[5])", "must be s32[]" },
    { "sort", "f32[5];s32[4]", "dimensions={0} to_apply=sort2", 0, "(f32[5], s32[5])", "same shape" },
    { "sort", "f32[5]", "dimensions={0} to_apply=add_f32", 0, "f32[5]", "must return pred[]" },
    { "sort", "f32[3,5]", "dimensions={2} to_apply=less_f32", 0, "f32[3,5]", "rank 2" },

    /* arithmetic over dimensions */
    { "dot", "f32[8,4];f32[4,3]", "lhs_contracting_dims={1} rhs_contracting_dims={0}", "f32[8,3]", "", 0 },
    { "dot", "bf16[2,8,4];bf16[2,4,3]",
      "lhs_batch_dims={0} rhs_batch_dims={0} lhs_contracting_dims={2} rhs_contracting_dims={1}",
      "f32[2,8,3]", "f32[2,8,3]", 0 },
    { "dot", "s8[8,4];s8[4,3]", "lhs_contracting_dims={1} rhs_contracting_dims={0}", "s32[8,3]",
      "s32[8,3]", 0 },
    { "dot", "f32[8];f32[4]", "", "f32[8,4]", "", 0 },
    { "dot", "f32[8];f32[4];f32[4]", "", 0, "f32[8,4]", "2 operands, not 3" },
    { "dot", "f32[8,4];f32[5,3]", "lhs_contracting_dims={1} rhs_contracting_dims={0}", 0, "f32[8,3]",
      "4 and 5" },
    { "dot", "f32[8,4];f32[4,3]", "lhs_contracting_dims={1}", 0, "f32[8,3]", "as many dimensions" },
    { "dot", "f32[4,4];f32[4,4]",
      "lhs_batch_dims={1} rhs_batch_dims={0} lhs_contracting_dims={1} rhs_contracting_dims={1}", 0,
      "f32[4,4]", "both a batch and a contracting" },
    { "dot", "f32[4];s32[4]", "lhs_contracting_dims={0} rhs_contracting_dims={0}", 0, "f32[]",
      "cannot multiply" },
    { "dot", "f32[4];f32[4]", "lhs_contracting_dims={0} rhs_contracting_dims={0}", 0, "s32[]",
      "products of f32 cannot be s32" },
    { "dot", "f32[4];f32[4]", "lhs_contracting_dims={1} rhs_contracting_dims={0}", 0, "f32[]", "rank 1" },
    { "convolution", "f32[2,8,8,3];f32[3,3,3,16]", PASTE(CONV2, SAME3), "f32[2,8,8,16]", "", 0 },
    { "convolution", "f32[2,8,8,6];f32[3,3,3,16]", PASTE(CONV2, SAME3 " feature_group_count=2"),
      "f32[2,8,8,16]", "", 0 },
    { "convolution", "f32[4,8,8,3];f32[3,3,3,16]", PASTE(CONV2, SAME3 " batch_group_count=2"),
      "f32[2,8,8,16]", "", 0 },
    { "convolution", "f32[2,9,8,3];f32[3,3,3,16]", PASTE(CONV2, "window=3,2,0,0,1,1;3,1,0,0,2,2"),
      "f32[2,4,11,16]", "", 0 },
    { "convolution", "f32[2,3];f32[3,5]", "dim_labels=bf_io->bf", "f32[2,5]", "", 0 },
    { "convolution", "f32[2,8,8,4];f32[3,3,3,16]", PASTE(CONV2, SAME3), 0, "f32[2,8,8,16]",
      "kernel must take 4" },
    { "convolution", "f32[2,8,8,3];f32[3,3,3,16]", PASTE(CONV2, "window=3,1,1,1,1,1"), 0,
      "f32[2,8,8,16]", "must have 2" },
    { "convolution", "f32[2,8,8,3];f32[3,3,3,16]", PASTE(CONV2, "window=3,1,1,1,1,1;5,1,1,1,1,1"), 0,
      "f32[2,8,8,16]", "the kernel f32[3,3,3,16] has 3" },
    { "convolution", "f32[2,8,8,3];f32[3,3,3,16]", PASTE(CONV2, "window=3,1,1,1,1,1;3,0,1,1,1,1"), 0,
      "f32[2,8,8,16]", "must be positive" },
    { "convolution", "f32[2,8,8,3];f32[3,3,3,16]", "window=3,1,1,1,1,1;3,1,1,1,1,1", 0,
      "f32[2,8,8,16]", "dim_labels= is missing" },
    { "convolution", "f32[2,8,3];f32[3,3,3,16]", PASTE(CONV2, SAME3), 0, "f32[2,8,8,16]", "rank 4" },
    { "convolution", "f32[3,8,8,3];f32[3,3,3,16]", PASTE(CONV2, SAME3 " batch_group_count=2"), 0,
      "f32[2,8,8,16]", "a batch of 3" },
    { "reduce", "f32[2,3,4];f32[]", "dimensions={0,2} to_apply=add_f32", "f32[3]", "", 0 },
    { "reduce", "bf16[2,3];f32[]", "dimensions={1} to_apply=add_f32", "f32[2]", "", 0 },
    { "reduce", "f32[2,3];s32[2,3];f32[];s32[]", "dimensions={0} to_apply=both", "(f32[3], s32[3])", "", 0 },
    { "reduce", "f32[2,3];f32[]", "to_apply=add_f32", 0, "f32[2]", "dimensions= is missing" },
    { "reduce", "f32[2,3];f32[]", "dimensions={2} to_apply=add_f32", 0, "f32[2]", "rank 2" },
    { "reduce", "f32[2,3];f32[1]", "dimensions={1} to_apply=add_f32", 0, "f32[2]", "start value 0" },
    { "reduce", "f32[2,3];s32[]", "dimensions={1} to_apply=add_f32", 0, "f32[2]", "start value 0" },
    { "reduce", "s32[2,3];s32[]", "dimensions={1} to_apply=add_f32", 0, "s32[2]", "returns f32" },
    { "reduce", "f32[2,3];f32[]", "dimensions={1}", 0, "f32[2]", "to_apply= is missing" },
    { "reduce", "f32[2,3];f32[]", "dimensions={1} to_apply=both", 0, "f32[2]", "must take 2 parameters" },
    { "reduce", "f32[2,3];f32[];f32[]", "dimensions={1} to_apply=add_f32", 0, "f32[2]", "as many start values" },
    { "reduce-window", "f32[8];f32[]", "window=2,2,0,0,1,1 to_apply=add_f32", "f32[4]", "", 0 },
    { "reduce-window", "f32[8];f32[]", "window=3,1,2,0,1,1 to_apply=add_f32", "f32[8]", "", 0 },
    { "reduce-window", "f32[3];f32[]", "window=5,1,0,0,1,1 to_apply=add_f32", "f32[0]", "", 0 },
    { "reduce-window", "f32[8,8];f32[]", "window=2,2,0,0,1,1 to_apply=add_f32", 0, "f32[4]", "must have 2" },
    { "select-and-scatter", "f32[8];f32[4];f32[]",
      "window=2,2,0,0,1,1 select=less_f32 scatter=add_f32", "f32[8]", "", 0 },
    { "select-and-scatter", "f32[8];f32[5];f32[]",
      "window=2,2,0,0,1,1 select=less_f32 scatter=add_f32", 0, "f32[8]", "windowed operand" },
    { "select-and-scatter", "f32[8];f32[4];f32[]",
      "window=2,2,0,0,1,1 select=add_f32 scatter=add_f32", 0, "f32[8]", "must return pred[]" },
    { "cholesky", "f32[2,3,3]", "", "f32[2,3,3]", "", 0 },
    { "cholesky", "f32[3,2]", "", 0, "f32[3,2]", "square" },
    { "triangular-solve", "f32[3,3];f32[3,2]", "left_side=true", "f32[3,2]", "", 0 },
    { "triangular-solve", "f32[3,3];f32[3,2]", "left_side=false", 0, "f32[3,2]", "cannot be solved" },
    { "reduce-precision", "f32[8]", "exponent_bits=5 mantissa_bits=10", "f32[8]", "", 0 },
    { "reduce-precision", "f32[8]", "exponent_bits=0 mantissa_bits=10", 0, "f32[8]", "at least 1 exponent bit" },
    { "fft", "c64[2,8]", "fft_type=FFT fft_length={8}", "c64[2,8]", "", 0 },
    { "fft", "f32[2,8]", "fft_type=RFFT fft_length={8}", "c64[2,5]", "", 0 },
    { "fft", "c64[4,5]", "fft_type=IRFFT fft_length={4,8}", "f32[4,8]", "", 0 },
    { "fft", "f32[2,8]", "fft_type=FFT fft_length={8}", 0, "c64[2,8]", "must be complex" },
    { "fft", "c64[2,8]", "fft_type=FFT fft_length={7}", 0, "c64[2,8]", "does not fit" },
    { "fft", "c64[8]", "fft_type=DCT fft_length={8}", 0, "c64[8]", "fft_type=" },
    { "batch-norm-training", "f32[4,3];f32[3];f32[3]", "epsilon=0.1 feature_index=1",
      "(f32[4,3], f32[3], f32[3])", "", 0 },
    { "batch-norm-training", "f32[4,3];f32[4];f32[3]", "epsilon=0.1 feature_index=1", 0, "f32[4,3]",
      "for each of 3 features" },
    { "batch-norm-inference", "f32[4,3];f32[3];f32[3];f32[3];f32[3]", "feature_index=1", "f32[4,3]", "", 0 },
    { "batch-norm-inference", "f32[4,3];f32[3];f32[3];f32[3];f32[3]", "feature_index=2", 0, "f32[4,3]",
      "rank 2" },
    { "batch-norm-grad", "f32[4,3];f32[3];f32[3];f32[3];f32[4,3]", "feature_index=1",
      "(f32[4,3], f32[3], f32[3])", "", 0 },
    { "batch-norm-grad", "f32[4,3];f32[3];f32[3];f32[3];f32[4]", "feature_index=1", 0, "f32[4,3]",
      "the gradient" },
    { "get-dimension-size", "f32[<=4,3]", "dimensions={0}", "s32[]", "", 0 },
    { "get-dimension-size", "f32[<=4,3]", "dimensions={2}", 0, "s32[]", "rank 2" },
    { "set-dimension-size", "f32[4,3];s32[]", "dimensions={0}", "f32[4,3]", "", 0 },
    { "set-dimension-size", "f32[4,3];f32[]", "dimensions={0}", 0, "f32[4,3]", "integer" },
    { "topk", "f32[3,9]", "k=4 largest=true", "(f32[3,4], s32[3,4])", "", 0 },
    { "topk", "f32[3,9]", "k=10", 0, "f32[3,4]", "cannot take k=10" },

    /* tuples and control */
    { "tuple", "f32[2]{0};(s32[])", "", "(f32[2], (s32[]))", "", 0 },
    { "tuple", "", "", "()", "", 0 },
    { "get-tuple-element", "(f32[2], s32[])", "index=1", "s32[]", "", 0 },
    { "get-tuple-element", "(f32[2], s32[])", "index=2", 0, "s32[]", "has 2 elements" },
    { "get-tuple-element", "f32[2]", "index=0", 0, "f32[2]", "must be a tuple" },
    { "while", "(s32[], f32[4])", "condition=test body=turn", "(s32[], f32[4])", "", 0 },
    { "while", "(s32[], f32[5])", "condition=test body=turn", 0, "(s32[], f32[5])", "'test' takes" },
    { "while", "(s32[], f32[4])", "condition=turn body=turn", 0, "(s32[], f32[4])", "must return pred[]" },
    { "while", "(s32[], f32[4])", "condition=test body=test", 0, "(s32[], f32[4])", "returns pred[]" },
    { "while", "(s32[], f32[4])", "condition=test", 0, "(s32[], f32[4])", "body= is missing" },
    { "conditional", "pred[];f32[4];f32[4]", "true_computation=square false_computation=square", "f32[4]",
      "", 0 },
    { "conditional", "s32[];f32[4];f32[4];f32[4]", "branch_computations={square,square,square}", "f32[4]",
      "", 0 },
    { "conditional", "s32[];f32[4];f32[4]", "branch_computations={square,length}", 0, "f32[4]",
      "must return the same" },
    { "conditional", "s32[];f32[4]", "branch_computations={square,square}", 0, "f32[4]",
      "2 branches, but 1 arguments" },
    { "conditional", "f32[];f32[4];f32[4]", "true_computation=square false_computation=square", 0,
      "f32[4]", "chooses the branch" },
    { "conditional", "s32[];f32[5];f32[4]", "branch_computations={square,square}", 0, "f32[4]",
      "takes f32[4] as parameter 0, but is given f32[5]" },
    { "call", "f32[4]", "to_apply=square", "f32[4]", "", 0 },
    { "call", "f32[4];f32[4]", "to_apply=square", 0, "f32[4]", "must take 2 parameters, but has 1" },
    { "fusion", "f32[4]", "kind=kLoop calls=square", "f32[4]", "", 0 },
    { "fusion", "f32[5]", "kind=kLoop calls=square", 0, "f32[5]", "is given f32[5]" },
    { "opt-barrier", "(f32[2], s32[])", "", "(f32[2], s32[])", "", 0 },
    { "add-dependency", "f32[2];token[]", "", "f32[2]", "", 0 },
    { "after-all", "token[]", "", "token[]", "", 0 },
    { "outfeed", "f32[2];token[]", "outfeed_config=\"\"", "token[]", "", 0 },
    { "custom-call", "f32[2]", "custom_call_target=\"x\"", "-", "f32[7]", 0 },
    { "rng", "f32[];f32[]", "distribution=rng_uniform", "-", "f32[7]", 0 },

    /* collectives, in a module of 8 partitions */
    { "all-gather", "f32[2,3]", "dimensions={0} replica_groups=[2,4] channel_id=1 use_global_device_ids=true",
      "f32[8,3]", "", 0 },
    { "all-gather", "f32[2,3]", "dimensions={0} replica_groups={} channel_id=1 use_global_device_ids=true",
      "f32[16,3]", "", 0 },
    { "all-gather", "f32[2];s32[3]", "dimensions={0} replica_groups={{0,1},{2,3}}",
      "(f32[4], s32[6])", "", 0 },
    { "all-gather", "f32[2,3]", "replica_groups=[2,4]", 0, "f32[8,3]", "dimensions= is missing" },
    { "all-gather", "f32[2,3]", "dimensions={2} replica_groups=[2,4]", 0, "f32[8,3]", "rank 2" },
    { "all-gather", "f32[2,3]", "dimensions={0} channel_id=1 replica_groups={{0,1}}", 0, "f32[7,3]",
      "cannot go from 2 to 7" }, /* groups of replicas times partitions: any multiple */
    { "all-reduce", "f32[2,3]", "replica_groups=[2,4] to_apply=add_f32", "f32[2,3]", "", 0 },
    { "all-reduce", "f32[2];f32[3]", "replica_groups=[2,4] to_apply=add_f32", "(f32[2], f32[3])", "", 0 },
    { "all-reduce", "f32[2]", "replica_groups=[2,4]", 0, "f32[2]", "to_apply= is missing" },
    { "reduce-scatter", "f32[8,3]",
      "dimensions={0} replica_groups=[2,4] to_apply=add_f32", "f32[2,3]", "", 0 },
    { "reduce-scatter", "f32[6,3]", "dimensions={0} replica_groups=[2,4] to_apply=add_f32", 0, "f32[2,3]",
      "cannot share" },
    { "all-to-all", "f32[8,3]", "dimensions={0} replica_groups=[2,4]", "f32[8,3]", "", 0 },
    { "all-to-all", "f32[2];f32[2]", "replica_groups={{0,1},{2,3}}", "(f32[2], f32[2])", "(f32[2], f32[2])", 0 },
    { "all-to-all", "f32[2];f32[3]", "replica_groups={{0,1},{2,3}}", 0, "(f32[2], f32[2])", "same shape" },
    { "all-to-all", "f32[6,3]", "dimensions={0} replica_groups=[2,4]", 0, "f32[6,3]", "cannot share" },
    { "all-to-all", "f32[2];f32[2]", "replica_groups=[2,4]", 0, "(f32[2], f32[2])", "4 members" },
    { "collective-permute", "f32[2]", "source_target_pairs={{0,1},{1,0}}", "f32[2]", "", 0 },
    { "collective-permute", "f32[2]", "", 0, "f32[2]", "source_target_pairs= is missing" },
    { "collective-broadcast", "f32[2]", "replica_groups={{0,1}}", "f32[2]", "", 0 },
    { "all-gather-done", "(f32[2], f32[8])", "", "f32[8]", "", 0 },
    { "all-gather-done", "f32[2]", "", 0, "f32[8]", "what was started" },
    { "collective-permute-done", "(f32[2], f32[2], u32[], u32[])", "", "f32[2]", "", 0 },
    { "async-done", "((f32[2], s32[]), f32[4], u32[])", "", "f32[4]", "", 0 },
};

static void one_line(struct world *w, const struct line *l, int number)
{
    char name[24];
    (void)snprintf(name, sizeof name, "line%d", number);
    comp_id c = comp(w, name);
    struct str names = STR_IN(&w->a);
    int k = 0;
    for (const char *p = l->operands; *p; k++) {
        size_t n = strcspn(p, ";");
        char x[24];
        (void)snprintf(x, sizeof x, "x%d", k);
        (void)put_param(w, c, x, k, arena_strndup(&w->a, p, n));
        str_addf(&names, k ? " %s" : "%s", x);
        p += n + (p[n] == ';');
    }
    const char *declared = l->declared[0] ? l->declared : l->result;
    instr_id i = put_named(w, c, "it", l->op, declared, str_text(&names), l->attrs);
    comp_finish(w->m, c, (instr_id){ 0 });
    diag_clear(w->d);
    shape_id out;
    bool ok = infer_shape(w->m, i, &out, w->d);
    if (!l->result) {
        if (ok)
            fail_msg("line %d: %s of %s is accepted", number, l->op, l->operands);
        if (!strstr(message(w, 0), l->says) || !strstr(message(w, 0), "'it'"))
            fail_msg("line %d: %s: \"%s\" does not say \"%s\"", number, l->op, message(w, 0), l->says);
        assert_int_equal(w->d->msgs.n, 1);
        return;
    }
    if (!ok)
        fail_msg("line %d: %s of %s: %s", number, l->op, l->operands, message(w, 0));
    if (l->result[0] == '-')
        assert_int_equal(out.i, 0);
    else if (!shape_same(w->c, out, shape(w, l->result)))
        fail_msg("line %d: %s of %s is %s, not %s", number, l->op, l->operands, shape_text(w, out),
                 l->result);
}

static void test_table(void **state)
{
    struct world *w = *state;
    w->m->num_partitions = 8;
    for (size_t k = 0; k < COUNTOF(lines); k++)
        one_line(w, &lines[k], (int)k);
}

/* Every rule of the column is in the table with a refusal, unless it can refuse nothing. */
static void test_table_is_complete(void **state)
{
    static const char *const rule_of[OP_COUNT] = {
#define OP(id, hlo, stablehlo, lo, hi, verify, propagate, partition, emulate, cost)                \
    [OP_##id] = #verify,
#include "ir/ops.def"
    };
    static const char *const total[] = { "given", "copy", "copy0", "tuple", "token", "u32" };
    (void)state;
    for (int op = 1; op < OP_COUNT; op++) {
        bool good = false, bad = false;
        for (size_t k = 0; k < COUNTOF(total); k++)
            bad |= strcmp(rule_of[op], total[k]) == 0;
        for (size_t k = 0; k < COUNTOF(lines); k++) {
            if (strcmp(rule_of[op_find(lines[k].op, strlen(lines[k].op))], rule_of[op]) != 0)
                continue;
            good |= lines[k].result != NULL;
            bad |= lines[k].result == NULL;
        }
        if (!good || !bad)
            fail_msg("rule %s of %s has no %s line", rule_of[op], op_name((enum op_kind)op),
                     good ? "bad" : "good");
    }
}

/* More than 64 dimensions come out of an outer product of two arrays of rank 40: refused, not lost. */
static void test_rank_overflow(void **state)
{
    struct world *w = *state;
    struct str s = STR_IN(&w->a);
    str_adds(&s, "f32[1");
    for (int k = 1; k < 33; k++)
        str_adds(&s, ",1");
    str_adds(&s, "]");
    comp_id c = comp(w, "c");
    (void)put_param(w, c, "x", 0, str_text(&s));
    (void)put_param(w, c, "y", 1, str_text(&s));
    instr_id i = put_named(w, c, "z", "dot", "f32[]", "x y", "");
    shape_id out;
    assert_false(infer_shape(w->m, i, &out, w->d));
    assert_says(w, "at most 32 dimensions");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_table, setup, teardown),
        cmocka_unit_test(test_table_is_complete),
        cmocka_unit_test_setup_teardown(test_rank_overflow, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
