// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/record/cupti_newer_cuda.hpp"

#include <cupti.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace msstream::overlap::record {

/// CUPTI, loaded at run time. Functions that its version lacks are nullptr.
struct Cupti {
  decltype(cuptiGetVersion)* get_version = nullptr;
  decltype(cuptiGetResultString)* get_result_string = nullptr;
  decltype(cuptiSubscribe)* subscribe = nullptr;
  Subscribe* subscribe_v2 = nullptr;
  decltype(cuptiUnsubscribe)* unsubscribe = nullptr;
  decltype(cuptiGetTimestamp)* get_timestamp = nullptr;
  decltype(cuptiGetCallbackName)* get_callback_name = nullptr;
  decltype(cuptiSetThreadIdType)* set_thread_id_type = nullptr;
  decltype(cuptiActivitySetAttribute)* set_attribute = nullptr;
  decltype(cuptiActivityRegisterCallbacks)* register_callbacks = nullptr;
  decltype(cuptiActivityEnable)* enable = nullptr;
  decltype(cuptiActivityDisable)* disable = nullptr;
  EnableCall* enable_driver_call = nullptr;
  EnableCall* enable_runtime_call = nullptr;
  EnableAllSyncs* enable_all_syncs = nullptr;
  decltype(cuptiActivityFlushAll)* flush_all = nullptr;
  decltype(cuptiActivityGetNextRecord)* get_next_record = nullptr;
  decltype(cuptiActivityGetNumDroppedRecords)* get_dropped = nullptr;
  decltype(cuptiGetContextId)* get_context_id = nullptr;
  decltype(cuptiGetDeviceId)* get_device_id = nullptr;
  decltype(cuptiGetStreamIdEx)* get_stream_id = nullptr;
  std::uint32_t version = 0;
  std::string path;
  CUpti_SubscriberHandle client = nullptr;

  /// Loads CUPTI: the one that the process has already, such as PyTorch's; else the file `chosen`,
  /// or one from the usual places. Returns why it cannot; empty on success.
  [[nodiscard]] std::string load(std::string const& chosen);

  /// Whether records tell which recording of an event is waited for (since CUDA 12.8).
  [[nodiscard]] bool has_event_sync_ids() const noexcept { return version >= 26; }
  [[nodiscard]] std::string describe(CUptiResult code) const;

  /// Makes this process's recorder the one client of CUPTI. Returns the reason if another one,
  /// which is named, is its client; empty on success.
  [[nodiscard]] std::string become_client();
  /// Lets other clients have CUPTI.
  void stop_being_client();

  /// Returns the name of a call, without a version; empty if there is none of that number.
  [[nodiscard]] std::string_view call_name(CUpti_CallbackDomain domain, std::uint32_t number) const;
};

}  // namespace msstream::overlap::record
