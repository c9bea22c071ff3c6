// SPDX-License-Identifier: Apache-2.0
#include "step/gradient_buckets.hpp"
#include "step/tape_state.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/ops/arithmetic.hpp>
#include <msstream/step/data_parallel.hpp>
#include <msstream/step/differentiable_ops.hpp>
#include <msstream/stream/detail/any_stream_scope.hpp>
#include <msstream/tensor/detail/any_copy.hpp>

#include <cstdint>
#include <source_location>
#include <string>
#include <utility>

namespace msstream::detail {

using comm::Reduction;

AnyDataParallel::AnyDataParallel(Parameters<AnyRuntime> const& parameters,
                                 comm::detail::AnyCommunicator const& communicator,
                                 DataParallelOptions const& options,
                                 std::source_location issued_at)
    : parameters_(parameters), communicator_(communicator), options_(options) {
  require(options.bucket_bytes >= 1,
          "DataParallel: buckets of {} bytes; expected at least 1",
          options.bucket_bytes);
  require(options.reduction == Reduction::mean || options.reduction == Reduction::sum,
          "DataParallel: the {} of gradients; expected mean or sum",
          name_of(options.reduction));
  parameters.for_each([&](std::string const&, AnyTensor const& tensor, auto) {
    if (!tensor.immutable()) {
      comm::detail::broadcast(communicator, tensor, 0, issued_at);
    }
  });
}

void AnyDataParallel::backward(AnyTape& tape,
                               Floats const& loss,
                               std::source_location issued_at) const {
  GradientBuckets buckets(tape, parameters_, communicator_, options_, issued_at);
  tape.backward(loss, issued_at);
  buckets.finish();
}

Floats AnyDataParallel::weighted(AnyTape& tape,
                                 Floats const& loss,
                                 Floats const& samples,
                                 std::source_location issued_at) const {
  require(samples.count() == 1 && loss.count() == 1,
          "DataParallel: a loss of shape {} weighted by numbers of samples of shape {}; expected "
          "scalars",
          loss.shape(),
          samples.shape());
  auto const own = samples.reshaped(loss.shape());
  Floats const mean(own.device(), own.shape());
  {
    AnyStreamScope const scope(communicator_.group(), {}, issued_at);
    copy_on_device(mean.any(), own.any(), issued_at);
  }
  comm::detail::all_reduce(communicator_, mean.any(), Reduction::mean, issued_at);
  auto const weight = ops::detail::divide(own, mean, issued_at);
  tape.without_gradient(weight.any());
  return ops::detail::multiply(tape, loss, weight, issued_at);
}

}  // namespace msstream::detail
