// SPDX-License-Identifier: Apache-2.0
#include "overlap/record/cupti_cuda.hpp"

#include "overlap/record/cupti_files.hpp"

#include <dlfcn.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <set>

namespace msstream::overlap::record {

namespace {

template <class Function>
void find(void* library, char const* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
}

/// Returns the major version of CUDA that the driver supports; 0 if it does not tell.
int major_of_driver() {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (driver == nullptr) {
    return 0;
  }
  auto* const get_version = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDriverGetVersion"));
  int version = 0;
  return get_version != nullptr && get_version(&version) == 0 ? version / 1000 : 0;
}

void* loaded_already() {
  for (char const* const name : kCuptiNames) {
    if (void* const library = dlopen(name, RTLD_NOW | RTLD_NOLOAD)) {
      return library;
    }
  }
  return nullptr;
}

void* load_from_usual_places() {
  for (auto const& file : cupti_files(major_of_driver())) {
    if (void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      return library;
    }
  }
  return nullptr;
}

/// Returns the profilers whose libraries the process has, for a message.
std::string profilers_here() {
  struct Known {
    std::string_view library;
    char const* name;
  };
  constexpr Known kKnown[] = {{"libToolsInjection", "Nsight Systems"},
                              {"libcuda-injection", "Nsight Compute"},
                              {"libTreeLauncherTargetInjection", "Nsight Compute"},
                              {"libsanitizer-collection", "compute-sanitizer"},
                              {"libcudadebugger", "cuda-gdb"},
                              {"libdlprof", "DLProf"},
                              {"libproton", "Triton's Proton"},
                              {"librocprofiler", "rocprofiler"}};
  std::set<std::string> found;
  if (std::FILE* const maps = std::fopen("/proc/self/maps", "re")) {
    std::array<char, 4096> line;
    while (std::fgets(line.data(), line.size(), maps) != nullptr) {
      for (Known const& known : kKnown) {
        if (std::string_view(line.data()).find(known.library) != std::string_view::npos) {
          found.insert(known.name);
        }
      }
    }
    std::fclose(maps);
  }
  std::string names;
  for (std::string const& name : found) {
    names += (names.empty() ? "" : ", ") + name;
  }
  return names;
}

/// Nothing is subscribed to: the subscription only keeps other clients from taking CUPTI over.
void CUPTIAPI ignore_call(void*, CUpti_CallbackDomain, CUpti_CallbackId, void const*) {}

}  // namespace

std::string Cupti::load(std::string const& chosen) {
  void* library = loaded_already();
  if (library == nullptr && !chosen.empty()) {
    library = dlopen(chosen.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      return std::string("cannot load CUPTI: ") + dlerror();
    }
  }
  if (library == nullptr) {
    library = load_from_usual_places();
  }
  if (library == nullptr) {
    return "cannot load libcupti.so.12 or libcupti.so.13, which comes with the CUDA toolkit and "
           "with PyTorch; name "
           "its file with --cupti, or its folder in LD_LIBRARY_PATH";
  }
  find(library, "cuptiGetVersion", get_version);
  find(library, "cuptiGetResultString", get_result_string);
  find(library, "cuptiSubscribe", subscribe);
  find(library, "cuptiSubscribe_v2", subscribe_v2);
  find(library, "cuptiUnsubscribe", unsubscribe);
  find(library, "cuptiGetTimestamp", get_timestamp);
  find(library, "cuptiGetCallbackName", get_callback_name);
  find(library, "cuptiSetThreadIdType", set_thread_id_type);
  find(library, "cuptiActivitySetAttribute", set_attribute);
  find(library, "cuptiActivityRegisterCallbacks", register_callbacks);
  find(library, "cuptiActivityEnable", enable);
  find(library, "cuptiActivityDisable", disable);
  find(library, "cuptiActivityEnableDriverApi", enable_driver_call);
  find(library, "cuptiActivityEnableRuntimeApi", enable_runtime_call);
  find(library, "cuptiActivityEnableAllSyncRecords", enable_all_syncs);
  find(library, "cuptiActivityFlushAll", flush_all);
  find(library, "cuptiActivityGetNextRecord", get_next_record);
  find(library, "cuptiActivityGetNumDroppedRecords", get_dropped);
  find(library, "cuptiGetContextId", get_context_id);
  find(library, "cuptiGetDeviceId", get_device_id);
  find(library, "cuptiGetStreamIdEx", get_stream_id);
  Dl_info info{};
  if (get_version != nullptr && dladdr(reinterpret_cast<void*>(get_version), &info) != 0 &&
      info.dli_fname != nullptr) {
    path = info.dli_fname;
  }
  if (get_version == nullptr || subscribe == nullptr || get_timestamp == nullptr ||
      register_callbacks == nullptr || enable == nullptr || disable == nullptr ||
      flush_all == nullptr || get_next_record == nullptr || get_dropped == nullptr ||
      get_callback_name == nullptr) {
    return path + " lacks functions that the recorder needs";
  }
  get_version(&version);
  // The records of CUDA 12.0 and later have the fields that the recorder reads.
  return version >= 18 ? std::string() : path + " is older than CUDA 12";
}

std::string Cupti::describe(CUptiResult code) const {
  char const* text = nullptr;
  if (get_result_string != nullptr) {
    get_result_string(code, &text);
  }
  return text != nullptr ? std::string(text) : "CUPTI error " + std::to_string(code);
}

std::string Cupti::become_client() {
  std::array<char, 256> other{};
  CUptiResult code = CUPTI_SUCCESS;
  if (subscribe_v2 != nullptr) {
    SubscriberParams params{};
    params.structSize = sizeof(params);
    params.subscriberName = "msstream-overlap";
    params.oldSubscriberName = other.data();
    params.oldSubscriberSize = other.size();
    code = subscribe_v2(&client, ignore_call, nullptr, &params);
  } else {
    code = subscribe(&client, ignore_call, nullptr);
  }
  if (code == CUPTI_SUCCESS) {
    return {};
  }
  if (code != CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) {
    return "CUPTI cannot be used: " + describe(code);
  }
  std::string name = other.data();
  if (name.empty()) {
    name = profilers_here();
  }
  return "another profiler uses CUPTI in this process: " +
         (name.empty() ? std::string("its name is unknown") : name) + "; only one can";
}

void Cupti::stop_being_client() {
  if (client != nullptr && unsubscribe != nullptr) {
    unsubscribe(client);
  }
  client = nullptr;
}

std::string_view Cupti::call_name(CUpti_CallbackDomain domain, std::uint32_t number) const {
  constexpr std::size_t kMost = 2048;
  using Found = std::array<std::unique_ptr<std::string>, kMost>;
  // Never destroyed: the recorder's thread writes names while the process ends.
  static auto& mutex = *new std::mutex;
  static auto& runtime_names = *new Found;
  static auto& driver_names = *new Found;
  if (number >= kMost) {
    return {};
  }
  auto& names = domain == CUPTI_CB_DOMAIN_RUNTIME_API ? runtime_names : driver_names;
  std::lock_guard const lock(mutex);
  if (!names[number]) {
    char const* text = nullptr;
    bool const known = get_callback_name(domain, number, &text) == CUPTI_SUCCESS && text != nullptr;
    std::string name = known ? text : "";
    if (auto const at = name.rfind("_v");
        at != std::string::npos && at + 2 < name.size() &&
        name.find_first_not_of("0123456789", at + 2) == std::string::npos) {
      name.resize(at);
    }
    for (std::string_view const end : {"_ptsz", "_ptds"}) {
      if (name.ends_with(end)) {
        name.resize(name.size() - end.size());
      }
    }
    // cuMemcpyHtoDAsync_v2_ptsz has both, in this order.
    if (auto const at = name.rfind("_v"); at != std::string::npos && at + 3 == name.size()) {
      name.resize(at);
    }
    names[number] = std::make_unique<std::string>(std::move(name));
  }
  return *names[number];
}

}  // namespace msstream::overlap::record
