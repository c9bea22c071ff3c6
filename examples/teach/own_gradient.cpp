// SPDX-License-Identifier: Apache-2.0
// A differentiable operation of your own: the gradient tape records its backward pass like those of
// the library's operations.
#include "own_gradient.hpp"

#include "teach.hpp"

#include <msstream/msstream.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <source_location>
#include <vector>

namespace ms = msstream;

template <ms::Runtime R>
using Floats = ms::Tensor<float, R>;

/// Computes SiLU without recording a backward pass. `issued_at` is the caller's line, for error
/// messages and reports of races.
template <ms::Runtime R>
Floats<R> silu(Floats<R> const& input, std::source_location issued_at) {
  Floats<R> output(input.device(), input.shape());
  own::SiluArgs const args{input.data(), output.data(), input.count()};
  ms::issue(
      "silu",
      ms::reads(input),
      ms::writes(output),
      [args](auto stream) { own::silu(stream, args); },
      {},
      issued_at);
  return output;
}

/// Computes the gradient of SiLU's input from the gradient of its output.
template <ms::Runtime R>
Floats<R> silu_gradient(Floats<R> const& input,
                        Floats<R> const& output_gradient,
                        std::source_location issued_at) {
  Floats<R> gradient(input.device(), input.shape());
  own::SiluGradientArgs const args{
      input.data(), output_gradient.data(), gradient.data(), input.count()};
  ms::issue(
      "silu_gradient",
      ms::reads(input, output_gradient),
      ms::writes(gradient),
      [args](auto stream) { own::silu_gradient(stream, args); },
      {},
      issued_at);
  return gradient;
}

/// Computes SiLU and records the backward pass on the tape. The recorded closure holds the input
/// tensor, so that it still exists when the backward pass reads it.
template <ms::Runtime R>
Floats<R> silu(ms::GradientTape<R>& tape,
               Floats<R> const& input,
               std::source_location issued_at = std::source_location::current()) {
  auto output = silu(input, issued_at);
  tape.record(
      "silu",
      output,
      [input, issued_at](ms::GradientTape<R>& playing, Floats<R> const& output_gradient) {
        playing.add_gradient(input, silu_gradient(input, output_gradient, issued_at), issued_at);
      },
      issued_at);
  return output;
}

/// Returns mean(silu(x) + silu(3 x)). x is used twice, on two streams, so its gradient is the sum
/// of two.
template <ms::Runtime R>
Floats<R> loss_of(ms::GradientTape<R>& tape, ms::StreamPool<R>& pool, Floats<R> const& x) {
  std::vector<Floats<R>> branches;
  for (int const branch : {0, 1}) {
    // The backward passes of operations recorded in this scope run on the scope's stream group,
    // too.
    ms::StreamScope const scope(pool[branch], {.include_grad = true});
    branches.push_back(silu(tape, branch == 0 ? x : ms::ops::scale(tape, x, 3.0F)));
  }
  return ms::ops::mean(tape, ms::ops::add(tape, branches));
}

template <ms::Runtime R>
void check_gradient() {
  ms::Device<R> const device;
  ms::StreamPool<R> pool(device, {.groups = 2});
  ms::GradientTape<R> tape(device);
  std::vector<float> const at = {-2.0F, -0.5F, 0.0F, 0.75F, 3.0F};
  auto const shape = ms::Shape{static_cast<std::int64_t>(at.size())};
  auto const x = ms::to_device(device, at, shape);
  tape.backward(loss_of(tape, pool, x));
  auto const gradient = ms::to_host(tape.gradient(x));

  // Pauses the recording on the tape: the central differences of the loss need no backward pass.
  typename ms::GradientTape<R>::Pause const forward_only(tape);
  constexpr float step = 1e-2F;
  std::cout << R::name << ":\n  x      gradient  by differences\n";
  for (std::size_t i = 0; i < at.size(); ++i) {
    auto const loss_at = [&](float value) {
      auto moved = at;
      moved[i] = value;
      return ms::to_host(loss_of(tape, pool, ms::to_device(device, moved, shape))).front();
    };
    float const difference = (loss_at(at[i] + step) - loss_at(at[i] - step)) / (2 * step);
    std::cout << "  " << at[i] << "\t " << gradient[i] << "\t   " << difference << '\n';
    teach::expect(std::abs(gradient[i] - difference) < 1e-3F, "the gradient of silu");
  }
}

int main() {
  return teach::run([] {
    check_gradient<ms::Host>();
#if MSSTREAM_CUDA
    if (ms::Cuda::device_count() > 0) {
      check_gradient<ms::Cuda>();
    } else {
      std::cout << "cuda: no GPU on this machine\n";
    }
#endif
  });
}
