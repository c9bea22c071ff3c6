// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/detail/require.hpp>
#include <msstream/step/batch_parts.hpp>
#include <msstream/step/differentiable_ops.hpp>
#include <msstream/stream/detail/any_stream_scope.hpp>

#include <algorithm>

namespace msstream {

std::vector<BatchPart> batch_parts(std::int64_t rows, int parts) {
  require(rows >= 1, "a batch of {} rows in parts; expected at least 1", rows);
  require(parts >= 1, "a batch in {} parts; expected at least 1", parts);
  std::int64_t const count = std::min<std::int64_t>(rows, parts);
  std::vector<BatchPart> made;
  std::int64_t begin = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    auto const end = begin + rows / count + (i < rows % count ? 1 : 0);
    made.push_back({begin, end});
    begin = end;
  }
  return made;
}

detail::Floats detail::loss_in_parts(GradientTape<AnyRuntime>& tape,
                                     AnyStreamPool const& pool,
                                     std::int64_t rows,
                                     int parts,
                                     std::function<Floats(BatchPart const&)> const& part_loss,
                                     std::source_location issued_at) {
  std::vector<Floats> losses;
  for (auto const& part : batch_parts(rows, parts)) {
    auto const number = static_cast<int>(losses.size());
    AnyStreamScope const scope(
        pool.group(number % pool.groups()), {.include_grad = true}, issued_at);
    auto const loss = part_loss(part);
    require(loss.count() == 1,
            "loss_in_parts: the loss of a part has shape {}; expected a scalar",
            loss.shape());
    auto const weight = static_cast<double>(part.rows()) / static_cast<double>(rows);
    losses.push_back(
        ops::detail::scale(tape, loss.reshaped(Shape{}), static_cast<float>(weight), issued_at));
  }
  return ops::detail::add(tape, losses, issued_at);
}

}  // namespace msstream
