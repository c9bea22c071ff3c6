// SPDX-License-Identifier: Apache-2.0
#include "embedding_kernels.cuh"

#include <msstream/ops/kernels/embedding.hpp>

namespace msstream::ops::kernels {
namespace {

// Enough lanes to fill a large GPU once: from here on a group of lanes serves several bags.
constexpr std::int64_t kManyLanes = std::int64_t{1} << 19;
constexpr int kBagsInFlight = 4;

template <class T, int Count>
void launch_lookup(CudaStream stream, LookupArgs const& args) {
  auto const bags = args.bags.bags;
  RowLanes const shape(args.width, Count);
  std::int64_t const groups_a_block = kLookupThreads / shape.lanes();
  auto const blocks = grid_for(bags, groups_a_block);
  bool const one_id_a_bag = args.bags.offsets == nullptr && args.bags.hotness == 1;
  if (one_id_a_bag && bags * shape.lanes() >= kManyLanes) {
    gather_kernel<T, Count, kBagsInFlight>
        <<<grid_for(bags, groups_a_block * kBagsInFlight), kLookupThreads, 0, stream>>>(args,
                                                                                        shape);
  } else if (one_id_a_bag) {
    gather_kernel<T, Count, 1><<<blocks, kLookupThreads, 0, stream>>>(args, shape);
  } else if (args.bags.capacity <= 4 * bags) {
    pool_kernel<T, Count, 4><<<blocks, kLookupThreads, 0, stream>>>(args, shape);
  } else {
    pool_kernel<T, Count, 8><<<blocks, kLookupThreads, 0, stream>>>(args, shape);
  }
  check_launch("embedding_lookup");
}

/// The widest loads that the width and the alignment of both arrays allow.
template <class T>
void launch_widest(CudaStream stream, LookupArgs const& args) {
  auto const allows = [&](int count) {
    return allows_vectors(static_cast<T const*>(args.table), args.width, count) &&
           allows_stores(args.output, args.width, count);
  };
  constexpr int kWidest = 16 / sizeof(T);
  if (allows(kWidest)) {
    launch_lookup<T, kWidest>(stream, args);
  } else if (kWidest > 4 && allows(4)) {
    launch_lookup<T, 4>(stream, args);
  } else {
    launch_lookup<T, 1>(stream, args);
  }
}

}  // namespace

void embedding_lookup(CudaStream stream, LookupArgs const& args) {
  if (args.bags.bags == 0 || args.width == 0) {
    return;
  }
  switch (args.table_dtype) {
    case DType::float32:
      return launch_widest<float>(stream, args);
    case DType::float16:
      return launch_widest<float16>(stream, args);
    case DType::bfloat16:
      return launch_widest<bfloat16>(stream, args);
    default:
      require(false, "embedding_lookup: a table of ", name_of(args.table_dtype));
  }
}

}  // namespace msstream::ops::kernels
