// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/bags.hpp>
#include <msstream/ops/choices.hpp>
#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/embedding.hpp>
#include <msstream/ops/embedding_tables.hpp>
#include <msstream/ops/table_batch.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/step/no_tape.hpp>

#include <cstdint>
#include <source_location>

namespace msstream::ops {

namespace detail {

// The implementation of the differentiable embedding_lookup(), compiled once for all runtimes.

[[nodiscard]] Floats embedding_lookup(AnyTape& tape,
                                      AnyTensor const& table,
                                      AnyBags const& bags,
                                      LookupOptions<AnyRuntime> options,
                                      std::source_location issued_at);
[[nodiscard]] AnyTensor embedding_lookup(AnyTape& tape,
                                         DType output,
                                         EmbeddingTables<AnyRuntime> const& tables,
                                         TableBags<AnyRuntime> const& bags,
                                         TablesLookupOptions<AnyRuntime> options,
                                         std::source_location issued_at);
[[nodiscard]] AnyTensor embedding_lookup_beside(AnyTape& tape,
                                                AnyTensor const& dense,
                                                EmbeddingTables<AnyRuntime> const& tables,
                                                TableBags<AnyRuntime> const& bags,
                                                TablesLookupOptions<AnyRuntime> options,
                                                std::source_location issued_at);

// The forms for NoTape, which are the operations without a tape.

[[nodiscard]] inline Floats embedding_lookup(NoTape,
                                             AnyTensor const& table,
                                             AnyBags const& bags,
                                             LookupOptions<AnyRuntime> const& options,
                                             std::source_location issued_at) {
  return Floats(msstream::detail::OfKnownType(),
                embedding_lookup(DType::float32, table, bags, options, issued_at));
}
[[nodiscard]] inline AnyTensor embedding_lookup(NoTape,
                                                DType output,
                                                EmbeddingTables<AnyRuntime> const& tables,
                                                TableBags<AnyRuntime> const& bags,
                                                TablesLookupOptions<AnyRuntime> const& options,
                                                std::source_location issued_at) {
  return embedding_lookup(output, tables, bags, options, issued_at);
}
[[nodiscard]] inline AnyTensor embedding_lookup_beside(
    NoTape,
    AnyTensor const& dense,
    EmbeddingTables<AnyRuntime> const& tables,
    TableBags<AnyRuntime> const& bags,
    TablesLookupOptions<AnyRuntime> const& options,
    std::source_location issued_at) {
  return embedding_lookup_beside(dense, tables, bags, options, issued_at);
}

}  // namespace detail

/// Pools rows of `table` as embedding_lookup() without a tape does; the tape records the backward.
/// The gradient of the table is row-sparse: see GradientTape::row_gradients(). The bags' weights
/// have a gradient for Pooling::sum and Pooling::none, unless they are excluded.
template <Element T, Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> embedding_lookup(
    Tape& tape,
    Tensor<T, R> const& table,
    Bags<R> const& bags,
    LookupOptions<R> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::embedding_lookup(tape, table.any(), bags, options, issued_at));
}
template <Element T, Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> embedding_lookup(
    Tape& tape,
    Tensor<T, R> const& table,
    Tensor<std::int64_t, R> const& ids,
    Tensor<std::int64_t, R> const& offsets,
    Pooling pooling,
    std::source_location issued_at = std::source_location::current()) {
  return embedding_lookup(
      tape, table, Bags<R>(ids, offsets), LookupOptions<R>{.pooling = pooling}, issued_at);
}

/// Pools rows of all tables of a TableBatch as embedding_lookup() without a tape does; the tape
/// records the backward. The gradient is that of TableBatch::weights(), and is row-sparse: see
/// GradientTape::row_gradients().
template <Element T, Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<float, R> embedding_lookup(
    Tape& tape,
    TableBatch<T, R> const& tables,
    Bags<R> const& rows,
    Pooling pooling = Pooling::sum,
    std::source_location issued_at = std::source_location::current()) {
  return embedding_lookup(
             tape, tables.weights(), rows, LookupOptions<R>{.pooling = pooling}, issued_at)
      .reshaped({rows.bags() / tables.tables(), tables.tables() * tables.weights().shape()[1]});
}

/// Pools rows of many tables in one launch, as embedding_lookup() without a tape does, to rows of
/// Out: float32, float16 or bfloat16. The gradient of the result has its type. The tape records one
/// operation, whose backward computes the gradients of all tables together, those of Pooling::max
/// included. The gradient of each table is row-sparse: see GradientTape::row_gradients().
/// Optimizer::step() applies such gradients where they are; functions that return the gradient of
/// one table copy its rows. If any table has Pooling::sum, the bags' weights have a gradient,
/// unless they are excluded; it is 0 in tables of other poolings.
template <RealElement Out = float, Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<Out, R> embedding_lookup(
    Tape& tape,
    EmbeddingTables<R> const& tables,
    TableBags<R> const& bags,
    TablesLookupOptions<R> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return {msstream::detail::OfKnownType(),
          detail::embedding_lookup(tape, dtype_of<Out>, tables, bags, options, issued_at)};
}

/// Pools rows of many tables beside other features of the samples, as embedding_lookup_beside()
/// without a tape does. The tape records one operation, whose backward reads the gradients of the
/// tables where they are in that of the result, and copies those of `dense`.
template <RealElement T, Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<T, R> embedding_lookup_beside(
    Tape& tape,
    Tensor<T, R> const& dense,
    EmbeddingTables<R> const& tables,
    TableBags<R> const& bags,
    TablesLookupOptions<R> const& options = {},
    std::source_location issued_at = std::source_location::current()) {
  return {msstream::detail::OfKnownType(),
          detail::embedding_lookup_beside(tape, dense.any(), tables, bags, options, issued_at)};
}

/// Returns input.rows(begin, end). The tape records nothing, because the gradient of a view is
/// added to that of the whole tensor in any case.
template <Element T, Runtime R, TapeOf<R> Tape>
[[nodiscard]] Tensor<T, R> rows(Tape& /*tape*/,
                                Tensor<T, R> const& input,
                                std::int64_t begin,
                                std::int64_t end) {
  return input.rows(begin, end);
}

}  // namespace msstream::ops
