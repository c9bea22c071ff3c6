// SPDX-License-Identifier: Apache-2.0
#include "overlap/record/convert_cuda.hpp"

namespace msstream::overlap::record {

namespace {

// Structures of later versions of CUPTI begin like the earlier ones. Fields that CUDA 12.0 lacks
// are read only where the version of the library tells that they are there.

std::int64_t time_of(std::uint64_t ns) {
  return static_cast<std::int64_t>(ns);
}

template <class Record>
Work work_of(Record const& record) {
  Work work;
  work.time = {time_of(record.start), time_of(record.end)};
  work.place = {record.deviceId, record.contextId, record.streamId};
  work.correlation = record.correlationId;
  return work;
}

template <class Record>
Work node_of(Record const& record) {
  Work work = work_of(record);
  work.graph = record.graphId;
  work.graph_node = record.graphNodeId;
  work.channel = record.channelID;
  work.channel_type = static_cast<int>(record.channelType);
  return work;
}

void add_kernel(CUpti_ActivityKernel8 const& record, EventWriter& writer) {
  Kernel kernel;
  kernel.work = node_of(record);
  kernel.name = record.name == nullptr ? "" : record.name;
  kernel.grid = {record.gridX, record.gridY, record.gridZ};
  kernel.block = {record.blockX, record.blockY, record.blockZ};
  kernel.cluster = {record.clusterX, record.clusterY, record.clusterZ};
  kernel.registers_per_thread = record.registersPerThread;
  kernel.shared_bytes =
      std::int64_t{record.staticSharedMemory} + std::int64_t{record.dynamicSharedMemory};
  writer.add(kernel);
}

template <class Record>
Copy copy_of(Record const& record) {
  Copy copy;
  copy.work = node_of(record);
  copy.direction = record.copyKind;
  copy.source = record.srcKind;
  copy.target = record.dstKind;
  copy.bytes = record.bytes;
  return copy;
}

void add_copy(CUpti_ActivityMemcpy5 const& record, EventWriter& writer) {
  writer.add(copy_of(record));
}

void add_peer_copy(CUpti_ActivityMemcpyPtoP4 const& record, EventWriter& writer) {
  auto copy = copy_of(record);
  copy.peers = {record.srcDeviceId, record.dstDeviceId};
  writer.add(copy);
}

void add_fill(CUpti_ActivityMemset4 const& record, EventWriter& writer) {
  writer.add(Fill{.work = node_of(record), .target = record.memoryKind, .bytes = record.bytes});
}

void add_graph(CUpti_ActivityGraphTrace const& record, EventWriter& writer) {
  WholeGraph graph{.work = work_of(record)};
  graph.work.graph = record.graphId;
  writer.add(graph);
}

void add_call(Cupti const& cupti,
              CUpti_ActivityAPI const& record,
              std::uint32_t own_thread,
              EventWriter& writer) {
  std::uint32_t const thread = record.threadId;
  if (thread == own_thread) {
    return;
  }
  ApiCall call;
  call.of_driver = record.kind == CUPTI_ACTIVITY_KIND_DRIVER;
  call.time = {time_of(record.start), time_of(record.end)};
  call.name = cupti.call_name(
      call.of_driver ? CUPTI_CB_DOMAIN_DRIVER_API : CUPTI_CB_DOMAIN_RUNTIME_API, record.cbid);
  if (call.name.empty()) {
    call.name = "unknown call";
  }
  call.thread = thread;
  call.correlation = record.correlationId;
  call.number = record.cbid;
  call.result = record.returnValue;
  writer.add(call);
}

void add_synchronisation(Cupti const& cupti, CUpti_Activity const* activity, EventWriter& writer) {
  auto const& record = *reinterpret_cast<CUpti_ActivitySynchronization const*>(activity);
  Synchronisation synchronisation;
  switch (record.type) {
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE:
      synchronisation.kind = Waiting::event;
      break;
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT:
      synchronisation.kind = Waiting::stream_for_event;
      break;
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE:
      synchronisation.kind = Waiting::stream;
      break;
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE:
      break;
    default:
      return;
  }
  synchronisation.time = {time_of(record.start), time_of(record.end)};
  synchronisation.context = record.contextId;
  synchronisation.stream = record.streamId;
  synchronisation.correlation = record.correlationId;
  synchronisation.event = record.cudaEventId;
  if (cupti.has_event_sync_ids()) {
    synchronisation.event_sync =
        reinterpret_cast<SynchronizationRecord const*>(activity)->cudaEventSyncId;
  }
  writer.add(synchronisation);
}

void add_event(Cupti const& cupti, CUpti_Activity const* activity, EventWriter& writer) {
  auto const& record = *reinterpret_cast<CUpti_ActivityCudaEvent const*>(activity);
  EventRecorded recorded;
  recorded.place = {0, record.contextId, record.streamId};
  recorded.correlation = record.correlationId;
  recorded.event = record.eventId;
  if (cupti.has_event_sync_ids()) {
    auto const& newer = *reinterpret_cast<EventRecord const*>(activity);
    recorded.place.device = newer.deviceId;
    recorded.has_device = true;
    recorded.event_sync = newer.cudaEventSyncId;
  }
  writer.add(recorded);
}

}  // namespace

std::size_t convert(Cupti const& cupti,
                    Buffers::Filled buffer,
                    std::uint32_t own_thread,
                    EventWriter& writer) {
  std::size_t unknown = 0;
  CUpti_Activity* record = nullptr;
  while (cupti.get_next_record(buffer.data, buffer.valid_bytes, &record) == CUPTI_SUCCESS) {
    switch (record->kind) {
      case CUPTI_ACTIVITY_KIND_KERNEL:
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
        add_kernel(*reinterpret_cast<CUpti_ActivityKernel8 const*>(record), writer);
        break;
      case CUPTI_ACTIVITY_KIND_MEMCPY:
        add_copy(*reinterpret_cast<CUpti_ActivityMemcpy5 const*>(record), writer);
        break;
      case CUPTI_ACTIVITY_KIND_MEMCPY2:
        add_peer_copy(*reinterpret_cast<CUpti_ActivityMemcpyPtoP4 const*>(record), writer);
        break;
      case CUPTI_ACTIVITY_KIND_MEMSET:
        add_fill(*reinterpret_cast<CUpti_ActivityMemset4 const*>(record), writer);
        break;
      case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
        add_graph(*reinterpret_cast<CUpti_ActivityGraphTrace const*>(record), writer);
        break;
      case CUPTI_ACTIVITY_KIND_RUNTIME:
      case CUPTI_ACTIVITY_KIND_DRIVER:
        add_call(cupti, *reinterpret_cast<CUpti_ActivityAPI const*>(record), own_thread, writer);
        break;
      case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
        add_synchronisation(cupti, record, writer);
        break;
      case CUPTI_ACTIVITY_KIND_CUDA_EVENT:
        add_event(cupti, record, writer);
        break;
      case CUPTI_ACTIVITY_KIND_OVERHEAD: {
        auto const& overhead = *reinterpret_cast<CUpti_ActivityOverhead const*>(record);
        OverheadSpan span;
        span.time = {time_of(overhead.start), time_of(overhead.end)};
        span.kind = static_cast<std::uint32_t>(overhead.overheadKind);
        span.thread =
            overhead.objectKind == CUPTI_ACTIVITY_OBJECT_THREAD ? overhead.objectId.pt.threadId : 0;
        writer.add(span);
        break;
      }
      case CUPTI_ACTIVITY_KIND_STREAM: {
        auto const& stream = *reinterpret_cast<CUpti_ActivityStream const*>(record);
        writer.add(StreamMade{.context = stream.contextId,
                              .stream = stream.streamId,
                              .priority = static_cast<std::int32_t>(stream.priority),
                              .flag = static_cast<int>(stream.flag)});
        break;
      }
      case CUPTI_ACTIVITY_KIND_CONTEXT: {
        auto const& context = *reinterpret_cast<CUpti_ActivityContext const*>(record);
        writer.add(ContextMade{.context = context.contextId,
                               .device = context.deviceId,
                               .null_stream = context.nullStreamId});
        break;
      }
      default:
        ++unknown;
    }
  }
  return unknown;
}

}  // namespace msstream::overlap::record
