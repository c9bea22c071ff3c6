// SPDX-License-Identifier: Apache-2.0
#include "lab.hpp"
#include "trained_tables.hpp"

#include <msstream/msstream.hpp>

#include <fmt/core.h>

#include <cstdint>
#include <type_traits>

/// Benchmarks of the backward of a lookup in 26 tables with MLPerf's hotness, and of the same
/// backward fused with row-wise Adagrad, both with the sorting of the ids, on a cold cache. Beside
/// them stands a copy of the bytes that the fused operation must move: the ids, the gradient of the
/// pooled rows, and each distinct row with its state, read and written.
namespace benchmarks {
namespace {

constexpr std::int64_t kBatch = 8192;

/// Measures the fused operation, and reports the times of the backward alone and of the copy, and
/// the ratios of its own time to the backward's and of its rate to the copy's.
template <ms::RealElement T, ms::Runtime R>
void fused_update(benchmark::State& state,
                  Lab<R>& lab,
                  Draw draw,
                  ms::OptimizerOptions::Rounding rounding) {
  train_dlrm::DlrmShape shape;
  shape.max_rows = lab.rows(shape.max_rows);
  TrainedTables<T, T, R> const trained(lab.device(), shape, lab.rows(kBatch), draw, rounding);
  auto const from = ms::zeros<std::uint8_t>(lab.device(), ms::Shape{trained.bytes() / 2});
  ms::Tensor<std::uint8_t, R> const to(lab.device(), from.shape());
  double const backward_ns = lab.bench().cold_ns([&] { trained.backward(); });
  double const copy_ns = lab.bench().cold_ns([&] { ms::copy(to, from); });
  double const fused_ns = lab.bench().measure_cold(state,
                                                   {.bytes = static_cast<double>(trained.bytes())},
                                                   [&] { trained.update(trained.group()); });
  state.counters["backward_ns"] = backward_ns;
  state.counters["copy_ns"] = copy_ns;
  state.counters["to_backward"] = fused_ns / backward_ns;
  state.counters["of_copy_of_bytes"] = copy_ns / fused_ns;
  state.counters["distinct"] = static_cast<double>(trained.distinct());
}

template <ms::Runtime R>
void add_all(std::int64_t divisor) {
  using Rounding = ms::OptimizerOptions::Rounding;
  auto const add_draws = by_draw(adder<R>("dlrm_tables", divisor), name_of);
  auto const add_rounded = [&]<class T>(std::type_identity<T>, Rounding rounding) {
    add_draws(fmt::format("fused_update/{}{}",
                          ms::name_of(ms::dtype_of<T>),
                          rounding == Rounding::stochastic ? "/stochastic" : ""),
              [=](benchmark::State& state, Lab<R>& lab, Draw draw) {
                fused_update<T>(state, lab, draw, rounding);
              });
  };
  add_rounded(std::type_identity<float>(), Rounding::nearest);
  for (auto const rounding : {Rounding::nearest, Rounding::stochastic}) {
    add_rounded(std::type_identity<ms::bfloat16>(), rounding);
    add_rounded(std::type_identity<ms::float16>(), rounding);
  }
}

}  // namespace

void add_host_benchmarks() {
  add_all<ms::Host>(axes::kHostDivisor);
}

void add_cuda_benchmarks() {
#if MSSTREAM_CUDA
  add_all<ms::Cuda>(1);
#endif
}

}  // namespace benchmarks
