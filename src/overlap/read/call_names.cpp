// SPDX-License-Identifier: Apache-2.0
#include "overlap/read/call_names.hpp"

#include <algorithm>

namespace msstream::overlap {
namespace {

bool remove_suffix(std::string_view& name, std::string_view suffix) {
  if (!name.ends_with(suffix)) {
    return false;
  }
  name.remove_suffix(suffix.size());
  return true;
}

bool remove_prefix(std::string_view& name, std::string_view prefix) {
  if (!name.starts_with(prefix)) {
    return false;
  }
  name.remove_prefix(prefix.size());
  return true;
}

/// Removes "_v2", "_v7000" and the suffixes of calls that use a default stream for each thread.
std::string_view without_version(std::string_view name) {
  while (true) {
    auto const at = name.rfind("_v");
    bool const has_version =
        at != std::string_view::npos && at + 2 != name.size() &&
        std::ranges::all_of(name.substr(at + 2), [](char c) { return c >= '0' && c <= '9'; });
    if (has_version) {
      name = name.substr(0, at);
    } else if (!remove_suffix(name, "_ptsz") && !remove_suffix(name, "_ptds")) {
      return name;
    }
  }
}

bool contains(std::string_view name, std::string_view part) {
  return name.find(part) != std::string_view::npos;
}

bool starts_with_one_of(std::string_view name, std::initializer_list<std::string_view> prefixes) {
  return std::ranges::any_of(prefixes,
                             [name](std::string_view prefix) { return name.starts_with(prefix); });
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

/// Returns the kind of a call whose name is without prefix and version: "LaunchKernel".
CallKind kind_of_core(std::string_view core) {
  if (core == "GraphLaunch") {
    return CallKind::graph_launch;
  }
  if (core.starts_with("GraphInstantiate")) {
    return CallKind::instantiate;
  }
  if (core.starts_with("Graph")) {
    return CallKind::other;  // such as cudaGraphAddMemcpyNode()
  }
  if (is_one_of(core, {"LaunchHostFunc", "StreamAddCallback"})) {
    return CallKind::host_function;
  }
  if (starts_with_one_of(
          core, {"Launch", "ModuleLaunch", "ExtLaunch", "ExtModuleLaunch", "HccModuleLaunch"})) {
    return CallKind::launch;
  }
  if (core.starts_with("Memcpy")) {
    return CallKind::copy;
  }
  if (core.starts_with("Memset")) {
    return CallKind::fill;
  }
  if (core.ends_with("Synchronize")) {
    return CallKind::synchronize;
  }
  if (is_one_of(core, {"StreamQuery", "EventQuery"})) {
    return CallKind::query;
  }
  if (core.starts_with("EventRecord")) {
    return CallKind::record_event;
  }
  if (core.starts_with("StreamWaitEvent")) {
    return CallKind::wait_event;
  }
  if (core.starts_with("StreamWaitValue") || core == "StreamBatchMemOp") {
    return CallKind::wait_value;
  }
  if (starts_with_one_of(core, {"ModuleLoad", "LibraryLoad", "Link", "FuncLoad"})) {
    return CallKind::load_module;
  }
  if (contains(core, "Async") || contains(core, "FromPool")) {
    bool const is_memory = starts_with_one_of(core, {"Malloc", "MemAlloc", "Free", "MemFree"});
    return is_memory ? CallKind::pool_memory : CallKind::other;
  }
  if (starts_with_one_of(core,
                         {"Malloc",
                          "MemAlloc",
                          "HostAlloc",
                          "HostMalloc",
                          "MemHostAlloc",
                          "HostRegister",
                          "MemHostRegister",
                          "ExtMalloc",
                          "MemExport",
                          "MemImport"}) ||
      is_one_of(core,
                {"MemCreate",
                 "MemMap",
                 "MemSetAccess",
                 "MemAddressReserve",
                 "ArrayCreate",
                 "Array3DCreate",
                 "MipmappedArrayCreate",
                 // Mapping memory of another process or device takes as long as making it.
                 "IpcOpenMemHandle",
                 "DeviceEnablePeerAccess",
                 "CtxEnablePeerAccess"})) {
    return CallKind::allocate;
  }
  if (starts_with_one_of(core,
                         {"Free", "MemFree", "HostFree", "HostUnregister", "MemHostUnregister"}) ||
      is_one_of(core,
                {"MemUnmap",
                 "MemRelease",
                 "MemAddressFree",
                 "MemPoolTrimTo",
                 "ArrayDestroy",
                 "MipmappedArrayDestroy",
                 "IpcCloseMemHandle",
                 "DeviceDisablePeerAccess",
                 "CtxDisablePeerAccess"})) {
    return CallKind::release;
  }
  return CallKind::other;
}

}  // namespace

CallName understand_call(std::string_view name) {
  CallName call{.name = without_version(name)};
  auto core = call.name;
  if (!remove_prefix(core, "cuda") && !remove_prefix(core, "hip")) {
    call.is_driver = remove_prefix(core, "cu");
    if (!call.is_driver) {
      return call;
    }
    if (core.starts_with("Memset") || core.starts_with("Memcpy")) {
      // cuMemsetD8Async() and cuMemcpyHtoDAsync() need no more than their beginnings.
      core = core.substr(0, 6);
    }
  }
  call.kind = kind_of_core(core);
  if (call.kind == CallKind::wait_event) {
    call.sync = SyncKind::wait;
  } else if (call.kind == CallKind::synchronize) {
    call.sync = core.starts_with("Stream")  ? SyncKind::stream
                : core.starts_with("Event") ? SyncKind::event
                                            : SyncKind::device;
  }
  return call;
}

}  // namespace msstream::overlap
