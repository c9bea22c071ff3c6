// SPDX-License-Identifier: Apache-2.0
#include <msstream/trace/detail/stack_range.hpp>

#include <nvtx3/nvToolsExt.h>

namespace msstream::detail {

namespace {

nvtxDomainHandle_t domain() noexcept {
  static nvtxDomainHandle_t const handle = nvtxDomainCreateA("msstream");
  return handle;
}

}  // namespace

StackRange::StackRange(char const* name, std::uint32_t category) noexcept {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.category = category;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  nvtxDomainRangePushEx(domain(), &attributes);
}

StackRange::~StackRange() {
  nvtxDomainRangePop(domain());
}

void name_category(std::uint32_t category, char const* name) noexcept {
  nvtxDomainNameCategoryA(domain(), category, name);
}

}  // namespace msstream::detail
