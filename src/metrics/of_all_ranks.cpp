// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/detail/require.hpp>
#include <msstream/base/format.hpp>
#include <msstream/comm/detail/any_communicator.hpp>
#include <msstream/metrics/of_all_ranks.hpp>
#include <msstream/ops/arithmetic.hpp>
#include <msstream/tensor/detail/any_copy.hpp>
#include <msstream/tensor/detail/typed.hpp>

#include <cstdint>
#include <source_location>

namespace msstream::metrics::detail {

using msstream::detail::copy_on_device;
using msstream::detail::fill_any;
using msstream::detail::Floats;
using AnyBatch = Batch<msstream::detail::AnyRuntime>;

namespace {

/// Returns as many ones as a tensor has elements.
[[nodiscard]] Floats ones_like(Floats const& tensor, std::source_location issued_at) {
  constexpr std::uint8_t kByteOfANumber = 0x3F;  // floats of four of them are about 0.75
  Floats const number(tensor.device(), {tensor.count()});
  fill_any(number.any(), kByteOfANumber, issued_at);
  return ops::detail::divide(number, number, issued_at);
}

}  // namespace

AnyBatch of_all_ranks(comm::detail::AnyCommunicator const& communicator,
                      AnyBatch const& own,
                      std::int64_t most_examples,
                      std::source_location issued_at) {
  auto const count = own.scores.count();
  require(count <= most_examples && most_examples > 0,
          "of_all_ranks: {} examples with most_examples {}; expected at most as many, and "
          "most_examples of at least 1",
          count,
          most_examples);
  for (auto const* const other : {&own.labels, &own.weights}) {
    require(!*other || (*other)->count() == count,
            "of_all_ranks: {} scores, and {} of shape {}",
            count,
            other == &own.labels ? "labels" : "weights",
            (*other)->shape());
  }
  require(!own.count && !own.users && !own.offsets && !own.targets,
          "of_all_ranks: a batch with {}; expected scores, labels and weights alone",
          own.count     ? "a count"
          : own.users   ? "users"
          : own.offsets ? "offsets"
                        : "targets");
  auto const gathered = [&](Floats const& part) {
    auto const places = communicator.size() * most_examples;
    Floats const all(part.device(), {places});
    if (count == most_examples) {
      comm::detail::all_gather(communicator, part.any(), all.any(), issued_at);
      return all;
    }
    Floats const padded(part.device(), {most_examples});
    fill_any(padded.any(), 0, issued_at);
    if (count > 0) {
      copy_on_device(padded.rows(0, count).any(), part.reshaped({count}).any(), issued_at);
    }
    comm::detail::all_gather(communicator, padded.any(), all.any(), issued_at);
    return all;
  };
  AnyBatch batch{.scores = gathered(own.scores)};
  if (own.labels) {
    batch.labels = gathered(*own.labels);
  }
  batch.weights = gathered(own.weights ? *own.weights : ones_like(own.scores, issued_at));
  return batch;
}

}  // namespace msstream::metrics::detail
