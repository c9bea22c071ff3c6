// SPDX-License-Identifier: Apache-2.0
#include "trace/counter.hpp"
#include "trace/nvtx_domain_cuda.hpp"

// The headers of counters need nvToolsExt.h of the same NVTX, which defines NVTX_NULLPTR. They may
// be those of another NVTX, in another folder than the toolkit's.
#if defined(NVTX_NULLPTR) && __has_include(<nvtx3/nvToolsExtCounters.h>) && \
    __has_include(<nvtx3/nvToolsExtSemanticsCounters.h>)
#define MSSTREAM_NVTX_COUNTERS 1
#include <nvtx3/nvToolsExtCounters.h>
#include <nvtx3/nvToolsExtSemanticsCounters.h>
#endif

namespace msstream::detail {

#if MSSTREAM_NVTX_COUNTERS
Counter::Counter(char const* name, Unit unit) noexcept {
  if (!nvtx_listens()) {
    return;
  }
  nvtxSemanticsCounter_t semantics{};
  semantics.header.structSize = sizeof semantics;
  semantics.header.semanticId = NVTX_SEMANTIC_ID_COUNTERS_V1;
  semantics.header.version = NVTX_COUNTER_SEMANTIC_VERSION;
  semantics.flags =
      NVTX_COUNTER_FLAG_VALUETYPE_ABSOLUTE | NVTX_COUNTER_FLAG_INTERPOLATION_UNTIL_NEXT;
  semantics.unit = unit == Unit::bytes ? "B" : nullptr;
  semantics.unitScaleNumerator = 1;
  semantics.unitScaleDenominator = 1;
  nvtxCounterAttr_t attributes{};
  attributes.structSize = sizeof attributes;
  attributes.schemaId = NVTX_PAYLOAD_ENTRY_TYPE_INT64;
  attributes.name = name;
  attributes.scopeId = NVTX_SCOPE_NONE;
  attributes.semantics = &semantics.header;
  attributes.counterId = NVTX_COUNTER_ID_NONE;
  id_ = nvtxCounterRegister(nvtx_domain(), &attributes);
}

void Counter::sample(std::int64_t value) const noexcept {
  if (id_ != 0) {
    nvtxCounterSampleInt64(nvtx_domain(), id_, value);
  }
}
#else
Counter::Counter(char const*, Unit) noexcept {}
void Counter::sample(std::int64_t) const noexcept {}
#endif

}  // namespace msstream::detail
