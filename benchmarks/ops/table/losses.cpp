// SPDX-License-Identifier: Apache-2.0
#include "ops/table/cases.hpp"

#include <cstdint>

/// Cases of losses, which compute the derivatives in the launch that computes the losses. A mean
/// writes the losses of the elements before it adds them, which its bytes do not count.
namespace benchmarks::table {
namespace {

using Sizes = axes::Table;
namespace ops = ms::ops;

/// Adds a case of a mean loss of two tensors of one shape, and counts the bytes of both and of the
/// derivatives.
template <ms::Runtime R, class Function>
void add_mean(AddCase<R> const& add, char const* name, Function function) {
  add(name, [=](benchmark::State& state, Lab<R>& lab) {
    ms::Shape const shape{rows_of_width(lab, Sizes::kWidth), Sizes::kWidth};
    auto const inputs = random_tensor(lab, shape, 0);
    auto const targets = random_tensor(lab, shape, 1, 0.0F);
    lab.bench().measure_cold(state, {.bytes = 3 * bytes_of(inputs)}, [&] {
      benchmark::DoNotOptimize(function(inputs, targets));
    });
  });
}

template <ms::RealElement T, ms::Runtime R>
void bce(benchmark::State& state, Lab<R>& lab) {
  ms::Shape const shape{rows_of_width(lab, Sizes::kWidth), Sizes::kWidth};
  auto const logits = random_tensor<T>(lab, shape, 0);
  auto const labels = random_tensor(lab, shape, 1, 0.0F);
  lab.bench().measure_cold(state, {.bytes = 2 * bytes_of(logits) + 2 * bytes_of(labels)}, [&] {
    benchmark::DoNotOptimize(ops::bce_with_logits(logits, labels));
  });
}

template <ms::RealElement T, ms::Runtime R>
void cross_entropy(benchmark::State& state, Lab<R>& lab) {
  auto const rows = rows_of_width(lab, Sizes::kClasses);
  auto const logits = random_tensor<T>(lab, {rows, Sizes::kClasses});
  auto const classes =
      put_ids<std::int64_t>(lab.device(), drawn(rows, Sizes::kClasses, Draw::uniform), {rows});
  lab.bench().measure_cold(state, {.bytes = 2 * bytes_of(logits) + bytes_of(classes)}, [&] {
    benchmark::DoNotOptimize(ops::softmax_cross_entropy(logits, classes));
  });
}

}  // namespace

template <ms::Runtime R>
void add_loss_cases(AddCase<R> const& add) {
  using ms::no_tape;
  add("bce_with_logits/float32", [](auto& state, auto& lab) { bce<float>(state, lab); });
  add("bce_with_logits/bfloat16", [](auto& state, auto& lab) { bce<ms::bfloat16>(state, lab); });
  add_mean<R>(add, "mean_bce_with_logits", [](auto const& x, auto const& z) {
    return ops::mean_bce_with_logits(no_tape, x, z);
  });
  add_mean<R>(
      add, "mse_loss", [](auto const& x, auto const& z) { return ops::mse_loss(no_tape, x, z); });
  add_mean<R>(add, "hinge_loss", [](auto const& x, auto const& z) {
    return ops::hinge_loss(no_tape, x, z);
  });
  add_mean<R>(
      add, "bpr_loss", [](auto const& x, auto const& z) { return ops::bpr_loss(no_tape, x, z); });
  add_mean<R>(add, "margin_ranking_loss", [](auto const& x, auto const& z) {
    return ops::margin_ranking_loss(no_tape, x, z);
  });
  add("softmax_cross_entropy/float32",
      [](auto& state, auto& lab) { cross_entropy<float>(state, lab); });
  add("softmax_cross_entropy/bfloat16",
      [](auto& state, auto& lab) { cross_entropy<ms::bfloat16>(state, lab); });
}

template void add_loss_cases(AddCase<ms::Host> const& add);
#if MSSTREAM_CUDA
template void add_loss_cases(AddCase<ms::Cuda> const& add);
#endif

}  // namespace benchmarks::table
