// SPDX-License-Identifier: Apache-2.0
#include "comm/communicator_state.hpp"

#include "comm/group.hpp"
#include "comm/host_processes.hpp"
#include "comm/host_threads.hpp"
#include "comm/nccl.hpp"
#include "comm/peers.hpp"
#include "comm/process_store.hpp"
#include "comm/thread_world.hpp"
#include "comm/world_access.hpp"
#include "memory/blocks/block.hpp"
#include "memory/device/device_state.hpp"
#include "stream/stream_group.hpp"
#include "tensor/issue_on.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/base/dtype.hpp>
#include <msstream/base/shape.hpp>
#include <msstream/comm/world.hpp>
#include <msstream/memory/detail/adopt.hpp>
#include <msstream/runtime/detail/runtime_thread.hpp>
#include <msstream/stream/detail/work_ref.hpp>

#include <fmt/core.h>

#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace msstream::comm::detail {

using msstream::detail::AnyUses;
using msstream::detail::DeviceState;
using msstream::detail::HomeProcess;
using msstream::detail::InsideWork;
using msstream::detail::NativeStream;
using msstream::detail::RuntimeThread;
using msstream::detail::StreamGroup;
using msstream::detail::StreamGroupOptions;
using msstream::detail::StreamRefKind;
using msstream::detail::WorkRef;

namespace {

/// The state that the communicators of a device share. The host asks for their failures whenever it
/// waits for the device.
class CommunicatorsOfDevice {
 public:
  explicit CommunicatorsOfDevice(DeviceState& device) {
    device.add_check([this] { check(); });
  }

  void add(std::shared_ptr<Told> told) {
    std::lock_guard const guard(mutex_);
    told_.push_back(std::move(told));
  }
  /// Removes a communicator that ends. If it has a failure that nothing has thrown, the next check
  /// still throws it.
  void remove(std::shared_ptr<Told> const& told) {
    std::lock_guard const guard(mutex_);
    if (told->is_told.load() || !told->transport->has_failure_to_tell()) {
      std::erase(told_, told);
    }
  }

  /// Returns the element that captured collectives of the device write. The device does not own it,
  /// since it owns the device.
  [[nodiscard]] std::shared_ptr<AnyTensor> order_in_captures(
      std::shared_ptr<DeviceState> const& device) {
    // Allocated without the lock: a wait for memory runs the checks of the device.
    auto made = std::make_shared<AnyTensor>(device, DType::uint8, Shape{1});
    std::lock_guard const guard(mutex_);
    if (auto order = order_in_captures_.lock()) {
      return order;
    }
    order_in_captures_ = made;
    return made;
  }

 private:
  void check() {
    std::lock_guard const guard(mutex_);
    std::erase_if(told_, [](std::shared_ptr<Told> const& told) {
      return told.use_count() == 1 && told->is_told.load();  // its communicator is gone
    });
    for (auto const& told : told_) {
      if (told->transport->has_failure_to_tell() && !told->is_told.exchange(true)) {
        told->transport->rethrow_failure(nullptr);
      }
    }
  }

  std::mutex mutex_;
  std::vector<std::shared_ptr<Told>> told_;
  std::weak_ptr<AnyTensor> order_in_captures_;
};

[[nodiscard]] std::shared_ptr<Transport> make_transport(msstream::detail::AnyDevice const& device,
                                                        World const& world,
                                                        CommunicatorSettings const& options,
                                                        std::source_location made_at) {
  auto const& traits = device.backend().traits;
  auto const& runtime = device.context()->runtime;
  if (traits.ref_kind == StreamRefKind::host && traits.runs_beside_host) {
    auto threads = WorldAccess::threads(world);
    if (threads == nullptr && world.size() > 1) {
      auto const process = store_of_this_process(world, options.name, options.timeout);
      return make_host_processes(runtime,
                                 make_process_peers(process,
                                                    world,
                                                    options.name,
                                                    options.timeout,
                                                    made_at,
                                                    LeftRanks::found_by_transport),
                                 {process->store().own_address(), process->host()},
                                 options.timeout);
    }
    auto const group = threads != nullptr ? WorldAccess::group(world) : nullptr;
    if (threads == nullptr) {
      threads = std::make_shared<ThreadWorld>(1);
    }
    auto place = threads->join(world.rank(), options.name, options.timeout, made_at, group);
    return make_host_threads(runtime, std::move(place), world.rank(), options.timeout);
  }
  if (world.size() == 1) {
    return make_copies(runtime);
  }
#if MSSTREAM_CUDA
  if (traits.ref_kind == StreamRefKind::cuda && has_nccl()) {
    auto const& name = options.name;
    auto const timeout = options.timeout;
    auto peers =
        WorldAccess::threads(world) != nullptr
            ? make_thread_peers(
                  WorldAccess::threads(world)->join(
                      world.rank(), name, timeout, made_at, WorldAccess::group(world)),
                  world.rank(),
                  timeout)
            : make_process_peers(
                  store_of_this_process(world, name, timeout), world, name, timeout, made_at);
    return make_nccl(runtime, std::move(peers), options);
  }
#endif
  msstream::detail::throw_invalid_argument(fmt::format(
      "communicator '{}': {} on the runtime {}: several ranks need the host runtime, or "
      "CUDA in a build that has found NCCL",
      options.name,
      to_string(world),
      traits.name));
}

[[nodiscard]] StreamGroupOptions group_options(CommunicatorSettings const& settings) {
  StreamGroupOptions options;
  options.merge_streams = true;  // a collective is on the compute stream
  options.priority = settings.priority;
  options.libraries = StreamPoolOptions::LibrariesMade::when_needed;
  options.name = "comm " + settings.name;
  return options;
}

constexpr int kMostSms = 64;  // the most blocks of a kernel of NCCL

[[nodiscard]] CommunicatorSettings const& checked(CommunicatorSettings const& options) {
  require(!options.name.empty(), "Communicator: an empty name");
  require(options.name.front() != kGroupMark,
          "Communicator: a name that begins with the character 0x1F");
  require(options.timeout > std::chrono::nanoseconds(0),
          "communicator '{}': a timeout of {} ns; expected more than 0",
          options.name,
          options.timeout.count());
  require(options.most_sms >= 0 && options.most_sms <= kMostSms,
          "communicator '{}': most_sms of {}; expected 1 to {}, or 0 to let NCCL choose",
          options.name,
          options.most_sms,
          kMostSms);
  return options;
}

/// Throws std::logic_error if the calling thread captures: memory that outlives a step must not
/// belong to it.
void require_no_capture(msstream::detail::AnyDevice const& device, char const* what) {
  if (msstream::detail::OpenCapture::current(*device.context()) != nullptr) {
    throw std::logic_error(fmt::format("{} is made inside a capture; make it before", what));
  }
}
[[nodiscard]] msstream::detail::AnyDevice outside_captures(msstream::detail::AnyDevice device) {
  require_no_capture(device, "a communicator");
  return device;
}

}  // namespace

CommunicatorState::CommunicatorState(msstream::detail::AnyDevice device,
                                     World const& world,
                                     CommunicatorSettings const& options,
                                     std::source_location made_at)
    : device_(outside_captures(std::move(device))),
      world_(world),
      name_(checked(options).name),
      group_(StreamGroup::make(device_.context(), -1, group_options(options))),
      order_(device_.state(), DType::uint8, Shape{1}),
      order_in_captures_(
          device_.state()->attachment<CommunicatorsOfDevice>().order_in_captures(device_.state())),
      told_(std::make_shared<Told>()),
      exceptions_at_begin_(std::uncaught_exceptions()),
      progress_(device_.context()->tracker) {
  told_->transport = make_transport(device_, world_, options, made_at);
  if (auto const interval = told_->transport->watch_interval(); interval.count() > 0) {
    watch_ = std::make_shared<Watch>(interval, [this] { look(); });
  }
  device_.state()->attachment<CommunicatorsOfDevice>().add(told_);
}

CommunicatorState::~CommunicatorState() {
  if (device_.context()->home.is_left()) {
    if (HomeProcess::is_forked()) {
      HomeProcess::keep(std::move(watch_));  // its thread is in the parent process alone
    }
    return;
  }
  auto& transport = *told_->transport;
  if (std::uncaught_exceptions() > exceptions_at_begin_) {
    transport.abandon(why_it_ends());
    told_->is_told.store(true);  // the exception tells that something has failed
  }
  for (auto const& collective : collectives_in_flight()) {
    device_.context()->tracker->finish(collective);
  }
  group_->finish();
  watch_.reset();  // until now, it ends collectives that wait for a lost rank
  try {
    // Graphs of captured steps that are gone may still keep what the transport is about to end.
    device_.state()->memory.capture_pools().sweep();
  } catch (...) {  // NOLINT(bugprone-empty-catch): a later sweep destroys them
  }
  transport.leave();
  device_.state()->attachment<CommunicatorsOfDevice>().remove(told_);
}

order::PositionSet CommunicatorState::collectives_in_flight() const {
  auto& record = order_.block()->record;
  order::PositionSet latest;
  std::lock_guard const guard(record.lock);
  record.add_hazards(AccessMode::read, latest);
  return latest;
}

void CommunicatorState::look() noexcept {
  // First of all: CUDA may keep a question about an event waiting while another rank frees memory,
  // and that rank waits for the collectives which have to end.
  told_->transport->end_if_failed();
  try {
    progress_.look(collectives_in_flight());
  } catch (...) {  // NOLINT(bugprone-empty-catch): no memory, so that the next call looks again
  }
  told_->transport->watch(progress_.is_in_flight(), progress_.stalled());
}

void CommunicatorState::rethrow_failure(Part const* issued) {
  try {
    told_->transport->rethrow_failure(issued);
  } catch (...) {
    told_->is_told.store(true);
    throw;
  }
}

order::Position CommunicatorState::issue(Part const& part, AnyUses const* read, AnyUses& written) {
  rethrow_failure(&part);
  written.add(order_);
  auto* const capture = msstream::detail::OpenCapture::current(*device_.context());
  if (capture != nullptr) {
    written.add(*order_in_captures_);
    if (auto shared = told_->transport->share_with_graph()) {
      capture->keep_with_graph(std::move(shared));
    }
  }
  auto own = part;
  own.is_captured = capture != nullptr;
  auto const position = msstream::detail::issue_on(
      *group_,
      name_of(part.what.kind).data(),  // ends with 0
      read,
      &written,
      // By reference: the group has no launch threads, so that this call runs the work.
      WorkRef::native(
          [&](NativeStream stream) { told_->transport->put(stream, own, told_->transport); }),
      part.issued_at);
  if (capture == nullptr) {
    if (auto const observer = device_.state()->issue_observer.current()) [[unlikely]] {
      observer->was_collective({position,
                                name_of(part.what.kind),
                                bytes_given(part.what, world_.size()),
                                name_,
                                world_.size()});
    }
  }
  return position;
}

void CommunicatorState::give_up(std::string const& why) {
  if (world_.size() == 1) {
    return;
  }
  told_->is_told.store(true);  // the exception of the caller tells it
  told_->transport->abandon(why);
}

void CommunicatorState::note_refusal(std::string const& what) {
  std::lock_guard const guard(mutex_);
  refused_ = what;
}

std::string CommunicatorState::why_it_ends() {
  std::lock_guard const guard(mutex_);
  return "an exception has ended its communicator" +
         (refused_.empty() ? "" : "; the latest that it has refused: " + refused_);
}

void CommunicatorState::synchronize() {
  InsideWork::refuse_wait("Communicator::synchronize");
  for (auto const& collective : collectives_in_flight()) {
    device_.context()->tracker->synchronize(collective);
  }
  rethrow_failure(nullptr);
  device_.state()->run_checks();
}

std::vector<std::string> CommunicatorState::exchange(std::string const& own) {
  InsideWork::refuse_wait("an exchange between ranks");
  rethrow_failure(nullptr);
  try {
    return told_->transport->exchange(own);
  } catch (...) {
    told_->is_told.store(true);
    throw;
  }
}

AnyTensor CommunicatorState::symmetric_tensor(DType dtype, Shape const& shape) {
  require_no_capture(device_, "a symmetric tensor");
  auto const texts = exchange(fmt::format("{} of shape {}", name_of(dtype), shape));
  for (std::size_t rank = 1; rank < texts.size(); ++rank) {
    require(
        texts[rank] == texts[0],
        "symmetric_tensor() of communicator '{}': {} on rank 0, and {} on rank {}; expected the "
        "same on all ranks",
        name_,
        texts[0],
        texts[rank],
        rank);
  }
  auto const bytes = static_cast<std::size_t>(shape.count()) * bytes_of(dtype);
  std::shared_ptr<void> memory;
  try {
    memory = told_->transport->symmetric_memory(bytes, told_->transport);
  } catch (...) {
    if (told_->transport->has_failure_to_tell()) {  // too little memory is no failure
      told_->is_told.store(true);
    }
    throw;
  }
  if (memory == nullptr) {
    return {device_.state(), dtype, shape};
  }
  auto* const data = memory.get();
  return {msstream::detail::adopt(device_.state(), data, bytes, std::move(memory)), dtype, shape};
}

bool CommunicatorState::may_make_symmetric(std::size_t bytes) const {
  return (bytes >= least_symmetric_bytes_ || told_->transport->gains_by_symmetry(bytes)) &&
         msstream::detail::OpenCapture::current(*device_.context()) == nullptr;
}

AnyCommunicator::AnyCommunicator(msstream::detail::AnyDevice const& device,
                                 World const& world,
                                 CommunicatorSettings const& options,
                                 std::source_location made_at)
    : state_(new CommunicatorState(device, world, options, made_at), [](CommunicatorState* state) {
        // The destructor waits for the group, which work on a stream must not do.
        RuntimeThread::call_outside([state] { delete state; });
      }) {}

int AnyCommunicator::rank() const noexcept {
  return state_->world().rank();
}
int AnyCommunicator::size() const noexcept {
  return state_->world().size();
}
std::string const& AnyCommunicator::name() const noexcept {
  return state_->name();
}
std::shared_ptr<StreamGroup> const& AnyCommunicator::group() const noexcept {
  return state_->group();
}
AnyTensor symmetric_tensor(AnyCommunicator const& communicator, DType dtype, Shape const& shape) {
  return communicator.state().symmetric_tensor(dtype, shape);
}
bool may_make_symmetric(AnyCommunicator const& communicator, std::size_t bytes) {
  return communicator.state().may_make_symmetric(bytes);
}
void AnyCommunicator::synchronize() const {
  state_->synchronize();
}
void AnyCommunicator::give_up(std::string const& why) const {
  state_->give_up(why);
}
std::vector<std::string> AnyCommunicator::exchange(std::string const& own) const {
  return state_->exchange(own);
}

}  // namespace msstream::comm::detail
