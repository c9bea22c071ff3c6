// SPDX-License-Identifier: Apache-2.0
#include "trace/nvtx_domain_cuda.hpp"

#include <msstream/trace/detail/stack_range.hpp>

#include <nvtx3/nvToolsExt.h>

#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

namespace msstream::detail {

namespace {

/// The strings that the tool knows by a handle, which costs it less than a text. Used only while a
/// tool listens. Thread-safe.
class RegisteredStrings {
 public:
  /// Returns the handle of a text; null beyond kMost texts, since the names of scopes may differ in
  /// every step, and without memory.
  [[nodiscard]] static nvtxStringHandle_t handle_of(std::string_view text) noexcept {
    auto& seen = seen_by_thread[Hash()(text) % kSeen];
    if (seen.text != nullptr && *seen.text == text) {
      return seen.handle;
    }
    // Never destroyed: other threads may open ranges while the program ends.
    static auto& strings = *new RegisteredStrings;
    seen = strings.find(text);
    return seen.handle;
  }

 private:
  static constexpr std::size_t kMost = 8192;
  static constexpr std::size_t kSeen = 256;

  /// A text in handles_, which never loses one, and its handle; null if there is none.
  struct Known {
    std::string const* text;
    nvtxStringHandle_t handle;
  };

  [[nodiscard]] Known find(std::string_view text) noexcept {
    try {
      std::lock_guard const guard(mutex_);
      auto found = handles_.find(text);
      if (found == handles_.end()) {
        if (handles_.size() == kMost) {
          return {};
        }
        found = handles_.emplace(text, nullptr).first;
        found->second = nvtxDomainRegisterStringA(nvtx_domain(), found->first.c_str());
      }
      return {&found->first, found->second};
    } catch (...) {
      return {};
    }
  }

  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept {
      return std::hash<std::string_view>()(text);
    }
  };

  /// The texts that this thread has looked up, by their hash, so that threads rarely
  /// meet at the lock. It has no destructor, because a thread may open ranges while it ends.
  static inline thread_local constinit Known seen_by_thread[kSeen] = {};

  std::mutex mutex_;
  std::unordered_map<std::string, nvtxStringHandle_t, Hash, std::equal_to<>> handles_;
};

}  // namespace

nvtxDomainHandle_t nvtx_domain() noexcept {
  static nvtxDomainHandle_t const handle = nvtxDomainCreateA("msstream");
  return handle;
}

bool find_nvtx_tool() noexcept {
  bool const listens = nvtx_domain() != nullptr;
  nvtx_tool.store(listens ? 1 : 0, std::memory_order_relaxed);
  return listens;
}

void StackRange::push(char const* name, std::uint32_t category, std::uint64_t number) noexcept {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.category = category;
  if (auto const registered = RegisteredStrings::handle_of(name); registered != nullptr) {
    attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    attributes.message.registered = registered;
  } else {
    attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
    attributes.message.ascii = name;
  }
  if (number != 0) {
    attributes.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
    attributes.payload.ullValue = number;
  }
  nvtxDomainRangePushEx(nvtx_domain(), &attributes);
}

void StackRange::pop() noexcept {
  nvtxDomainRangePop(nvtx_domain());
}

std::uint32_t category_of(char const* name) noexcept {
  constexpr std::size_t kMost = 4096;
  if (!nvtx_listens()) {
    return 0;
  }
  try {
    // Never destroyed: other threads may make groups while the program ends.
    static auto& mutex = *new std::mutex;
    static auto& categories = *new std::unordered_map<std::string, std::uint32_t>;
    std::lock_guard const guard(mutex);
    if (auto const found = categories.find(name); found != categories.end()) {
      return found->second;
    }
    if (categories.size() == kMost) {
      return 0;
    }
    auto const category = static_cast<std::uint32_t>(categories.size() + 1);
    categories.emplace(name, category);
    nvtxDomainNameCategoryA(nvtx_domain(), category, name);
    return category;
  } catch (...) {  // no memory: the ranges have no category
    return 0;
  }
}

}  // namespace msstream::detail
