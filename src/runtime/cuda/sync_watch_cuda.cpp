// SPDX-License-Identifier: Apache-2.0
#include "cupti_cuda.hpp"
#include "sync_calls_cuda.hpp"

#include <msstream/runtime/detail/sync_watch_cuda.hpp>

#include <fmt/core.h>

#include <array>
#include <cstdio>
#include <string>
#include <string_view>

namespace msstream::detail {

namespace {

#if MSSTREAM_HAS_CUPTI

std::array<SyncCall, CUPTI_DRIVER_TRACE_CBID_SIZE> sync_calls;

bool wants(CUpti_CallbackId driver_call, std::string_view name) {
  sync_calls[driver_call] = sync_call(name);
  return static_cast<bool>(sync_calls[driver_call]);
}

/// The name of the CUDA runtime function that the calling thread is inside; null if none.
thread_local char const* runtime_call = nullptr;

void CUPTIAPI on_call(void*, CUpti_CallbackDomain domain, CUpti_CallbackId id, void const* data) {
  auto const& call = *static_cast<CUpti_CallbackData const*>(data);
  bool const enters = call.callbackSite == CUPTI_API_ENTER;
  if (domain == CUPTI_CB_DOMAIN_RUNTIME_API) {
    runtime_call = enters ? call.functionName : nullptr;
    return;
  }
  auto* const listener = sync_listener();
  if (!enters || listener == nullptr) {
    return;
  }
  auto const* const name = runtime_call != nullptr ? runtime_call : call.functionName;
  OwnCall const asking_cuda_back;
  if (auto const complaint = sync_calls[id].complaint(call.functionParams); !complaint.empty()) {
    listener->implicit_sync(fmt::format("{}{}", name, complaint));
  }
}

std::string subscribe() {
  return subscribe_to_calls(on_call, wants);
}

#else

std::string subscribe() {
  return "built without cupti.h";
}

#endif

}  // namespace

bool SyncWatch<Cuda>::start() noexcept {
  static bool const started = [] {
    auto const problem = subscribe();
    if (!problem.empty()) {
      std::fprintf(
          stderr, "msstream check: implicit synchronisations are not seen: %s\n", problem.c_str());
    }
    return problem.empty();
  }();
  return started;
}

}  // namespace msstream::detail
