// SPDX-License-Identifier: Apache-2.0
#include "cupti_cuda.hpp"

#include <fmt/core.h>

#if MSSTREAM_HAS_CUPTI

#include <dlfcn.h>

namespace msstream::detail {

namespace {

/// Loads libcupti at run time, so that only programs that watch CUDA calls need the library.
void* load_cupti() {
  for (char const* const name :
       {"libcupti.so." MSSTREAM_CUDA_MAJOR,
        "libcupti.so",
        MSSTREAM_CUDA_LIBRARIES "/libcupti.so." MSSTREAM_CUDA_MAJOR,
        MSSTREAM_CUDA_LIBRARIES "/../extras/CUPTI/lib64/libcupti.so." MSSTREAM_CUDA_MAJOR}) {
    if (void* const library = dlopen(name, RTLD_NOW)) {
      return library;
    }
  }
  return nullptr;
}

template <class Function>
Function* function_of(void* library, char const* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

}  // namespace

std::string subscribe_to_calls(CUpti_CallbackFunc callback,
                               bool (*wants)(CUpti_CallbackId driver_call, std::string_view name)) {
  void* const library = load_cupti();
  if (library == nullptr) {
    return "libcupti.so." MSSTREAM_CUDA_MAJOR
           " cannot be loaded; add its folder to LD_LIBRARY_PATH";
  }
  auto* const subscribe = function_of<decltype(cuptiSubscribe)>(library, "cuptiSubscribe");
  auto* const enable = function_of<decltype(cuptiEnableCallback)>(library, "cuptiEnableCallback");
  auto* const enable_all = function_of<decltype(cuptiEnableDomain)>(library, "cuptiEnableDomain");
  auto* const get_name =
      function_of<decltype(cuptiGetCallbackName)>(library, "cuptiGetCallbackName");
  if (subscribe == nullptr || enable == nullptr || enable_all == nullptr || get_name == nullptr) {
    return "libcupti has no callbacks";
  }
  CUpti_SubscriberHandle subscriber = nullptr;
  if (auto const code = subscribe(&subscriber, callback, nullptr); code != CUPTI_SUCCESS) {
    return fmt::format("cuptiSubscribe failed with {}; another tool may have it",
                       static_cast<int>(code));
  }
  auto code = enable_all(1, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API);
  for (CUpti_CallbackId call = 1;
       code == CUPTI_SUCCESS && call < CUpti_CallbackId{CUPTI_DRIVER_TRACE_CBID_SIZE};
       ++call) {
    char const* name = nullptr;
    if (get_name(CUPTI_CB_DOMAIN_DRIVER_API, call, &name) == CUPTI_SUCCESS && name != nullptr &&
        wants(call, name)) {
      code = enable(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, call);
    }
  }
  return code == CUPTI_SUCCESS
             ? std::string()
             : fmt::format("enabling CUPTI's callbacks failed with {}", static_cast<int>(code));
}

}  // namespace msstream::detail

#endif
