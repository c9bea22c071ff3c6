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

#include <cstddef>
#include <mutex>
#include <string>
#include <unordered_map>

namespace msstream::detail {

#if MSSTREAM_NVTX_COUNTERS
bool has_nvtx_counters() noexcept {
  return true;
}

namespace {

std::uint64_t register_counter(char const* name, Counter::Unit unit) noexcept {
  nvtxSemanticsCounter_t semantics{};
  semantics.header.structSize = sizeof semantics;
  semantics.header.semanticId = NVTX_SEMANTIC_ID_COUNTERS_V1;
  semantics.header.version = NVTX_COUNTER_SEMANTIC_VERSION;
  semantics.flags =
      NVTX_COUNTER_FLAG_VALUETYPE_ABSOLUTE | NVTX_COUNTER_FLAG_INTERPOLATION_UNTIL_NEXT;
  semantics.unit = unit == Counter::Unit::bytes ? "B" : nullptr;
  semantics.unitScaleNumerator = 1;
  semantics.unitScaleDenominator = 1;
  nvtxCounterAttr_t attributes{};
  attributes.structSize = sizeof attributes;
  attributes.schemaId = NVTX_PAYLOAD_ENTRY_TYPE_INT64;
  attributes.name = name;
  attributes.scopeId = NVTX_SCOPE_NONE;
  attributes.semantics = &semantics.header;
  attributes.counterId = NVTX_COUNTER_ID_NONE;
  return nvtxCounterRegister(nvtx_domain(), &attributes);
}

}  // namespace

Counter::Counter(char const* name, Unit unit) noexcept {
  constexpr std::size_t kMost = 4096;
  if (!nvtx_listens()) {
    return;
  }
  try {
    // Never destroyed: other threads may make counters while the program ends.
    static auto& mutex = *new std::mutex;
    static auto& ids = *new std::unordered_map<std::string, std::uint64_t>;
    std::lock_guard const guard(mutex);
    if (auto const found = ids.find(name); found != ids.end()) {
      id_ = found->second;
    } else if (ids.size() < kMost) {
      auto const made = ids.emplace(name, 0).first;
      made->second = register_counter(name, unit);
      id_ = made->second;
    }
  } catch (...) {  // NOLINT(bugprone-empty-catch): without memory, the counter does nothing
  }
}

void Counter::sample(std::int64_t value) const noexcept {
  if (id_ != 0) {
    nvtxCounterSampleInt64(nvtx_domain(), id_, value);
  }
}
#else
bool has_nvtx_counters() noexcept {
  return false;
}
Counter::Counter(char const*, Unit) noexcept {}
void Counter::sample(std::int64_t) const noexcept {}
#endif

}  // namespace msstream::detail
