// SPDX-License-Identifier: Apache-2.0
#include "step/parallel/distinct_rows.hpp"
#include "step/parallel/sharded_tables_state.hpp"

#include <msstream/ops/jagged.hpp>
#include <msstream/tensor/detail/any_copy.hpp>
#include <msstream/tensor/issue.hpp>

#include <cstddef>

namespace msstream::detail {

namespace kernels = ops::kernels;

AheadRows DistinctRows::prefetch(ShardedTablesState const& tables,
                                 DistinctIds const& ids,
                                 DistinctIds const* others,
                                 std::source_location issued_at) const {
  auto const& device = tables.device();
  auto const ranks = tables.ranks();
  if (tables.layout().widest == 0) {
    return {Floats(device, {0})};
  }
  if (others == nullptr) {
    return {received_rows(tables, ids.received, issued_at)};
  }
  auto const& message = layout_.messages[static_cast<std::size_t>(tables.communicator().rank())];
  auto const stride = layout_.most_message_ids;
  TensorOf<std::int32_t> const flags(device, {ranks, stride});
  TensorOf<std::int64_t> const counts(device, {ranks});
  if (message.returned == 0) {
    fill_any(flags.any(), 0, issued_at);
    fill_any(counts.any(), 0, issued_at);
  } else {
    auto const of = [&](TensorOf<std::int64_t> const& numbers) {
      return kernels::IdMessages{
          numbers.data(), layout_.id_stride, message.slots, message.capacity, 0};
    };
    kernels::TouchedIdsArgs const args{.ids = of(ids.received),
                                       .others = of(others->received),
                                       .messages = ranks,
                                       .slots = message.returned,
                                       .most_ids = layout_.most_ids,
                                       .flags = flags.data(),
                                       .flag_stride = stride,
                                       .counts = counts.data()};
    issue(
        "touched_ids",
        reads(arrays_.all(), ids.received, others->received),
        writes(flags, counts),
        [args](auto stream) { kernels::touched_ids(stream, args); },
        {},
        issued_at);
  }
  TensorOf<std::int32_t> const flags_at_home(device, {ranks, stride});
  TensorOf<std::int64_t> const counts_at_home(device, {ranks});
  fill_any(flags_at_home.any(), 0, issued_at);
  comm::detail::all_to_all(tables.communicator(),
                           flags.any(),
                           counts.any(),
                           flags_at_home.any(),
                           counts_at_home.any(),
                           issued_at);
  auto const sent = split(tables, ids.received, flags, false, issued_at);
  auto const here = split(tables, ids.sent.rows(0, ranks), flags_at_home, true, issued_at);
  return {received_rows(tables, sent.without, issued_at),
          AheadRows::Split{here.without, here.with, sent.with}};
}

DistinctRows::SplitIds DistinctRows::split(ShardedTablesState const& tables,
                                           TensorOf<std::int64_t> const& ids,
                                           TensorOf<std::int32_t> const& flags,
                                           bool at_home,
                                           std::source_location issued_at) const {
  auto const ranks = tables.ranks();
  auto const before =
      ops::detail::lengths_to_offsets(flags.reshaped({flags.count()}).any(), {}, issued_at);
  SplitIds result{TensorOf<std::int64_t>(tables.device(), {ranks, layout_.id_stride}),
                  TensorOf<std::int64_t>(tables.device(), {ranks, layout_.id_stride})};
  kernels::SplitIdsArgs const args{
      .numbers = ids.data(),
      .stride = layout_.id_stride,
      .messages = ranks,
      .abouts = at_home ? messages_ : messages_ + tables.communicator().rank(),
      .about_step = at_home ? 1 : 0,
      .slots = slots_,
      .most_slots = layout_.most_slots,
      .most_ids = layout_.most_ids,
      .flags_before = before.data(),
      .flag_stride = flags.shape()[1],
      .has_positions = at_home,
      .without = result.without.data(),
      .with = result.with.data()};
  issue(
      "split_ids",
      reads(arrays_.all(), ids, before),
      writes(result.without, result.with),
      [args](auto stream) { kernels::split_ids(stream, args); },
      {},
      issued_at);
  return result;
}

}  // namespace msstream::detail
