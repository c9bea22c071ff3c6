// SPDX-License-Identifier: Apache-2.0
// A tool for NVTX that writes down what it is told, a line a call, to the file MSSTREAM_NVTX_LOG.
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtCounters.h>
#include <nvtx3/nvToolsExtSemanticsCounters.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

std::FILE* file() {
  static std::FILE* const opened = std::fopen(std::getenv("MSSTREAM_NVTX_LOG"), "w");
  return opened;
}

// Handles are the texts themselves.
std::string* kept(char const* text) {
  return new std::string(text);
}
std::string const& text_of(void const* handle) {
  return *static_cast<std::string const*>(handle);
}

nvtxDomainHandle_t NVTX_API create(char const* name) {
  std::fprintf(file(), "domain %s\n", name);
  return reinterpret_cast<nvtxDomainHandle_t>(kept(name));
}
nvtxStringHandle_t NVTX_API register_string(nvtxDomainHandle_t domain, char const* text) {
  std::fprintf(file(), "%s: register %s\n", text_of(domain).c_str(), text);
  return reinterpret_cast<nvtxStringHandle_t>(kept(text));
}
void NVTX_API name_category(nvtxDomainHandle_t domain, std::uint32_t category, char const* name) {
  std::fprintf(file(), "%s: category %u is %s\n", text_of(domain).c_str(), category, name);
}
int NVTX_API push(nvtxDomainHandle_t domain, nvtxEventAttributes_t const* event) {
  bool const registered = event->messageType == NVTX_MESSAGE_TYPE_REGISTERED;
  std::fprintf(file(),
               "%s: push %s %s, category %u, payload %llu\n",
               text_of(domain).c_str(),
               registered ? "registered" : "text",
               registered ? text_of(event->message.registered).c_str() : event->message.ascii,
               event->category,
               event->payloadType == NVTX_PAYLOAD_TYPE_UNSIGNED_INT64
                   ? static_cast<unsigned long long>(event->payload.ullValue)
                   : 0ULL);
  return 0;
}
int NVTX_API pop(nvtxDomainHandle_t domain) {
  std::fprintf(file(), "%s: pop\n", text_of(domain).c_str());
  return 0;
}

std::uint64_t NVTX_API register_counter(nvtxDomainHandle_t domain,
                                        nvtxCounterAttr_t const* counter) {
  static std::uint64_t last = 100;
  auto const* const semantics = reinterpret_cast<nvtxSemanticsCounter_t const*>(counter->semantics);
  std::fprintf(file(),
               "%s: counter %llu is %s in %s\n",
               text_of(domain).c_str(),
               static_cast<unsigned long long>(++last),
               counter->name,
               semantics->unit == nullptr ? "1" : semantics->unit);
  return last;
}
void NVTX_API sample(nvtxDomainHandle_t domain, std::uint64_t counter, std::int64_t value) {
  std::fprintf(file(),
               "%s: counter %llu = %lld\n",
               text_of(domain).c_str(),
               static_cast<unsigned long long>(counter),
               static_cast<long long>(value));
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t get_table) {
  auto const* const callbacks =
      static_cast<NvtxExportTableCallbacks const*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable functions = nullptr;
  unsigned count = 0;
  if (callbacks == nullptr ||
      callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &functions, &count) == 0) {
    return 0;
  }
  auto const set = [&](unsigned number, auto* function) {
    *functions[number] = reinterpret_cast<NvtxFunctionPointer>(function);
  };
  set(NVTX_CBID_CORE2_DomainCreateA, create);
  set(NVTX_CBID_CORE2_DomainRegisterStringA, register_string);
  set(NVTX_CBID_CORE2_DomainNameCategoryA, name_category);
  set(NVTX_CBID_CORE2_DomainRangePushEx, push);
  set(NVTX_CBID_CORE2_DomainRangePop, pop);
  return 1;
}

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtxExtension(
    nvtxExtModuleInfo_t* module) {
  if (module->moduleId != NVTX_EXT_COUNTERS_MODULEID) {
    return 0;
  }
  auto* const slots = module->segments[0].functionSlots;
  slots[NVTX3EXT_CBID_nvtxCounterRegister] = reinterpret_cast<std::intptr_t>(register_counter);
  slots[NVTX3EXT_CBID_nvtxCounterSampleInt64] = reinterpret_cast<std::intptr_t>(sample);
  return 1;
}
