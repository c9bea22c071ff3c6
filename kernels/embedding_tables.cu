// SPDX-License-Identifier: Apache-2.0
#include "embedding_tables.cuh"

#include <msstream/base/error.hpp>

namespace msstream::ops::kernels {
namespace {

template <class Tables, TableKinds Kinds>
void launch(CudaStream stream, TablesLookupArgs const& args) {
  constexpr int kBlocksAnSm = Kinds == TableKinds::float_gathers ? kFloatGatherBlocksAnSm : 1;
  launch_embedding_tables<Tables, Kinds, kLog2BagsInFlight, kTablesThreads, kBlocksAnSm>(stream,
                                                                                         args);
}

template <class Tables>
void launch_kinds(CudaStream stream, TablesLookupArgs const& args) {
  auto const& plan = *args.plan;
  if (!plan.gathers_all || pools_all(args)) {
    launch<Tables, TableKinds::any>(stream, args);
  } else if (plan.loads_floats && args.output_dtype == DType::float32) {
    launch<Tables, TableKinds::float_gathers>(stream, args);
  } else {
    launch<Tables, TableKinds::gathers>(stream, args);
  }
}

}  // namespace

void embedding_tables_lookup(CudaStream stream, TablesLookupArgs const& args) {
  auto const tables = args.plan->tables.size();
  if (args.batch == 0 || tables == 0) {
    return;
  }
  if (tables <= kInlineTables) {
    launch_kinds<InlineTables>(stream, args);
  } else {
    launch_kinds<DeviceTables>(stream, args);
  }
}

}  // namespace msstream::ops::kernels
