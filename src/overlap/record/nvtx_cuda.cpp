// SPDX-License-Identifier: Apache-2.0
// The functions that NVTX calls: its header loads the library that NVTX_INJECTION64_PATH names.
#include "overlap/record/range_log.hpp"

#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>

#include <cstddef>
#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>

namespace msstream::overlap::record {

namespace {

/// Returns the one copy of a text, which handles of domains and registered strings point to.
std::string const* kept(std::string_view text) {
  static auto& mutex = *new std::mutex;
  static auto& texts = *new std::unordered_set<std::string>;
  std::lock_guard const lock(mutex);
  return &*texts.emplace(text).first;
}

std::string narrow(wchar_t const* text) {
  std::string out;
  for (; text != nullptr && *text != 0; ++text) {
    auto const code = static_cast<unsigned long>(*text);
    if (code < 0x80) {
      out.push_back(static_cast<char>(code));
    } else if (code < 0x800) {
      out.push_back(static_cast<char>(0xC0U | (code >> 6U)));
      out.push_back(static_cast<char>(0x80U | (code & 0x3FU)));
    } else if (code < 0x10000) {
      out.push_back(static_cast<char>(0xE0U | (code >> 12U)));
      out.push_back(static_cast<char>(0x80U | ((code >> 6U) & 0x3FU)));
      out.push_back(static_cast<char>(0x80U | (code & 0x3FU)));
    } else {
      out.push_back(static_cast<char>(0xF0U | (code >> 18U)));
      out.push_back(static_cast<char>(0x80U | ((code >> 12U) & 0x3FU)));
      out.push_back(static_cast<char>(0x80U | ((code >> 6U) & 0x3FU)));
      out.push_back(static_cast<char>(0x80U | (code & 0x3FU)));
    }
  }
  return out;
}

std::string_view plain(char const* text) {
  return text == nullptr ? std::string_view() : std::string_view(text);
}

std::string const* domain_of(nvtxDomainHandle_t domain) {
  return reinterpret_cast<std::string const*>(domain);
}

std::string name_of(nvtxEventAttributes_t const* event) {
  if (event == nullptr) {
    return {};
  }
  switch (event->messageType) {
    case NVTX_MESSAGE_TYPE_ASCII:
      return std::string(plain(event->message.ascii));
    case NVTX_MESSAGE_TYPE_UNICODE:
      return narrow(event->message.unicode);
    case NVTX_MESSAGE_TYPE_REGISTERED: {
      auto const* const text = reinterpret_cast<std::string const*>(event->message.registered);
      return text == nullptr ? std::string() : *text;
    }
    default:
      return {};
  }
}

RangeLog& log() {
  return RangeLog::of_process();
}

// The functions have C's calling convention and never throw into the program.

nvtxRangeId_t NVTX_API start_ex(nvtxEventAttributes_t const* event) {
  return log().start(nullptr, name_of(event));
}
nvtxRangeId_t NVTX_API start_a(char const* name) {
  return log().start(nullptr, plain(name));
}
nvtxRangeId_t NVTX_API start_w(wchar_t const* name) {
  return log().start(nullptr, narrow(name));
}
void NVTX_API end_range(nvtxRangeId_t id) {
  log().end(id);
}
int NVTX_API push_ex(nvtxEventAttributes_t const* event) {
  return log().push(nullptr, name_of(event));
}
int NVTX_API push_a(char const* name) {
  return log().push(nullptr, plain(name));
}
int NVTX_API push_w(wchar_t const* name) {
  return log().push(nullptr, narrow(name));
}
int NVTX_API pop() {
  return log().pop(nullptr);
}
void NVTX_API name_thread_a(std::uint32_t thread, char const* name) {
  log().name_thread(thread, plain(name));
}
void NVTX_API name_thread_w(std::uint32_t thread, wchar_t const* name) {
  log().name_thread(thread, narrow(name));
}
nvtxRangeId_t NVTX_API domain_start(nvtxDomainHandle_t domain, nvtxEventAttributes_t const* event) {
  return log().start(domain_of(domain), name_of(event));
}
void NVTX_API domain_end(nvtxDomainHandle_t, nvtxRangeId_t id) {
  log().end(id);
}
int NVTX_API domain_push(nvtxDomainHandle_t domain, nvtxEventAttributes_t const* event) {
  return log().push(domain_of(domain), name_of(event));
}
int NVTX_API domain_pop(nvtxDomainHandle_t domain) {
  return log().pop(domain_of(domain));
}
nvtxStringHandle_t NVTX_API register_a(nvtxDomainHandle_t, char const* text) {
  return reinterpret_cast<nvtxStringHandle_t>(const_cast<std::string*>(kept(plain(text))));
}
nvtxStringHandle_t NVTX_API register_w(nvtxDomainHandle_t, wchar_t const* text) {
  return reinterpret_cast<nvtxStringHandle_t>(const_cast<std::string*>(kept(narrow(text))));
}
nvtxDomainHandle_t NVTX_API create_a(char const* name) {
  return reinterpret_cast<nvtxDomainHandle_t>(const_cast<std::string*>(kept(plain(name))));
}
nvtxDomainHandle_t NVTX_API create_w(wchar_t const* name) {
  return reinterpret_cast<nvtxDomainHandle_t>(const_cast<std::string*>(kept(narrow(name))));
}

class Table {
 public:
  Table(NvtxExportTableCallbacks const& callbacks, NvtxCallbackModule module) {
    if (callbacks.GetModuleFunctionTable(module, &functions_, &count_) == 0) {
      count_ = 0;
    }
  }
  template <class Function>
  void set(unsigned number, Function* function) {
    if (number < count_ && functions_[number] != nullptr) {
      *functions_[number] = reinterpret_cast<NvtxFunctionPointer>(function);
    }
  }

 private:
  NvtxFunctionTable functions_ = nullptr;
  unsigned count_ = 0;
};

}  // namespace

}  // namespace msstream::overlap::record

/// Called by NVTX at the program's first use of it.
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t get_table) {
  using namespace msstream::overlap::record;
  auto const* const callbacks =
      static_cast<NvtxExportTableCallbacks const*>(get_table(NVTX_ETID_CALLBACKS));
  if (callbacks == nullptr || callbacks->struct_size < sizeof *callbacks) {
    return 0;
  }
  Table core(*callbacks, NVTX_CB_MODULE_CORE);
  core.set(NVTX_CBID_CORE_RangeStartEx, start_ex);
  core.set(NVTX_CBID_CORE_RangeStartA, start_a);
  core.set(NVTX_CBID_CORE_RangeStartW, start_w);
  core.set(NVTX_CBID_CORE_RangeEnd, end_range);
  core.set(NVTX_CBID_CORE_RangePushEx, push_ex);
  core.set(NVTX_CBID_CORE_RangePushA, push_a);
  core.set(NVTX_CBID_CORE_RangePushW, push_w);
  core.set(NVTX_CBID_CORE_RangePop, pop);
  core.set(NVTX_CBID_CORE_NameOsThreadA, name_thread_a);
  core.set(NVTX_CBID_CORE_NameOsThreadW, name_thread_w);
  Table domains(*callbacks, NVTX_CB_MODULE_CORE2);
  domains.set(NVTX_CBID_CORE2_DomainRangeStartEx, domain_start);
  domains.set(NVTX_CBID_CORE2_DomainRangeEnd, domain_end);
  domains.set(NVTX_CBID_CORE2_DomainRangePushEx, domain_push);
  domains.set(NVTX_CBID_CORE2_DomainRangePop, domain_pop);
  domains.set(NVTX_CBID_CORE2_DomainRegisterStringA, register_a);
  domains.set(NVTX_CBID_CORE2_DomainRegisterStringW, register_w);
  domains.set(NVTX_CBID_CORE2_DomainCreateA, create_a);
  domains.set(NVTX_CBID_CORE2_DomainCreateW, create_w);
  return 1;
}
