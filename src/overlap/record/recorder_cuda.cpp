// SPDX-License-Identifier: Apache-2.0
#include "overlap/record/recorder_cuda.hpp"

#include "overlap/record/device_facts_cuda.hpp"
#include "overlap/record/range_log.hpp"
#include "overlap/record/signals.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <thread>

namespace msstream::overlap::record {

namespace {

constexpr int kTickMs = 250;

std::atomic<Recorder*> current_recorder{nullptr};
std::atomic<Buffers*> current_buffers{nullptr};
std::atomic<sem_t*> current_wake{nullptr};
std::atomic<std::size_t> waking_bytes{0};  ///< with more of them in buffers, the thread is woken

void CUPTIAPI buffer_requested(std::uint8_t** data, std::size_t* bytes, std::size_t* most_records) {
  *data = current_buffers.load()->request();
  *bytes = *data == nullptr ? 0 : current_buffers.load()->bytes();
  *most_records = 0;
}

void CUPTIAPI
buffer_completed(CUcontext, std::uint32_t, std::uint8_t* data, std::size_t, std::size_t valid) {
  Buffers& buffers = *current_buffers.load();
  if (data != nullptr && buffers.complete(data, valid) > waking_bytes.load()) {
    sem_post(current_wake.load());
  }
}

// Never destroyed, and shared by all recordings of the process: CUPTI's threads may use them until
// it ends.
Buffers& buffers_of(Settings const& settings) {
  static auto& buffers = *new Buffers(settings.memory_mib << 20U);
  return buffers;
}

sem_t& made_wake() {
  static sem_t& wake = []() -> sem_t& {
    auto* const made = new sem_t;
    sem_init(made, 0, 0);
    return *made;
  }();
  return wake;
}

void on_watched_range(bool);

}  // namespace

Recorder::Recorder(Settings settings, Cupti const& cupti)
    : settings_(std::move(settings)),
      cupti_(cupti),
      pid_(::getpid()),
      buffers_(buffers_of(settings_)),
      file_(settings_.folder, std::to_string(pid_), settings_.plain),
      wake_(made_wake()) {}

Recorder* Recorder::current() noexcept {
  return current_recorder.load(std::memory_order_acquire);
}

void Recorder::finish(int why, int limit_ms) noexcept {
  Recorder* const recorder = current();
  if (recorder != nullptr && recorder->pid_ == ::getpid()) {
    recorder->ask_to_finish(why);
    recorder->wait_until_done(limit_ms);
  }
}

void Recorder::ask_to_finish(int why) noexcept {
  int none = 0;
  why_.compare_exchange_strong(none, why);
  sem_post(&wake_);
}

bool Recorder::wait_until_done(int limit_ms) const noexcept {
  for (int waited_us = 0; !done_ && waited_us < limit_ms * 1000; waited_us += 200) {
    timespec const pause{0, 200'000};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, nullptr);
  }
  return done_;
}

void Recorder::forget_in_child() noexcept {
  // The thread and its locks stayed in the parent, which goes on to write the file.
  if (Recorder* const recorder = current_recorder.exchange(nullptr)) {
    recorder->file_.abandon();
  }
  RangeLog::renew();
}

Moment Recorder::now() const {
  // The clocks cannot be read at once: the closest of some readings is taken.
  Moment best;
  std::int64_t smallest = -1;
  for (int trial = 0; trial < 5; ++trial) {
    std::uint64_t before = 0;
    std::uint64_t after = 0;
    Moment moment;
    cupti_.get_timestamp(&before);
    moment.read_system_clocks();
    cupti_.get_timestamp(&after);
    auto const distance = static_cast<std::int64_t>(after - before);
    moment.recording = static_cast<std::int64_t>(before) + distance / 2;
    if (smallest < 0 || distance < smallest) {
      smallest = distance;
      best = moment;
    }
  }
  return best;
}

void Recorder::tell(bool ok, std::string const& message) const {
  if (settings_.in_program) {
    return;  // the program is told as it ends the recording
  }
  // The launcher prints it. A name of its own, as a process may fail before it has a file.
  std::string const path =
      settings_.folder + "/" + std::to_string(pid_) + (ok ? ".note" : ".error");
  int const descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor >= 0) {
    std::string const line = message + "\n";
    [[maybe_unused]] auto const written = ::write(descriptor, line.data(), line.size());
    ::close(descriptor);
  }
}

void Recorder::start() {
  static std::atomic<bool> started{false};
  Settings const settings = Settings::from_environment();
  if (settings.folder.empty() || started.exchange(true)) {
    return;
  }
  Cupti cupti;
  std::string error = cupti.load(settings.cupti);
  if (error.empty()) {
    error = cupti.become_client();
  }
  // Never destroyed: CUPTI's threads may call it until the process ends.
  auto* const recorder = new Recorder(settings, cupti);
  if (error.empty()) {
    error = recorder->file_.error();
  }
  if (!error.empty()) {
    recorder->tell(false, error);
    ::unlink((recorder->file_.path() + ".part").c_str());
    delete recorder;
    return;
  }
  if (error = recorder->begin(); !error.empty()) {
    recorder->tell(false, error);
  }
}

std::string Recorder::start_in_program(std::string const& folder) {
  if (Recorder const* const other = current()) {
    return other->settings_.in_program ? "this program is being recorded for another report"
                                       : "msstream-overlap run records this program already";
  }
  Settings settings = Settings::from_environment();
  // The environment chooses parts of a whole program, which this is not.
  settings.skip_ms = 0;
  settings.duration_ms = 0;
  settings.range.clear();
  settings.folder = folder;
  settings.plain = true;
  settings.in_program = true;
  // CUPTI does not bear that graphs which exist already become whole ones.
  settings.graph_nodes = true;
  Cupti cupti;
  std::string error = cupti.load(settings.cupti);
  if (error.empty()) {
    error = cupti.become_client();
  }
  if (!error.empty()) {
    return error;
  }
  std::unique_ptr<Recorder> recorder(new Recorder(settings, cupti));
  error = recorder->file_.error();
  if (error.empty()) {
    error = recorder->begin();
  }
  if (!error.empty()) {
    recorder->cupti_.stop_being_client();
    return error;
  }
  [[maybe_unused]] auto const* const kept = recorder.release();  // current()
  return {};
}

Recorder::Stopped Recorder::stop_in_program() {
  Recorder* const here = current();
  if (here == nullptr || !here->settings_.in_program) {
    return {.path = {}, .error = "the program began no recording", .start = {}};
  }
  finish_work_of_caller();
  here->ask_to_finish(kStopped);
  here->thread_of_program_.join();
  std::unique_ptr<Recorder> const recorder(current_recorder.exchange(nullptr));
  recorder->cupti_.stop_being_client();
  recorder->buffers_.free_empty();
  return {.path = recorder->file_.path(),
          .error = recorder->file_.error(),
          .start = recorder->head_.start,
          .cupti_version = recorder->cupti_.version};
}

std::string Recorder::begin() {
  while (sem_trywait(&wake_) == 0) {
  }
  buffers_.make_ahead();
  waking_bytes = settings_.in_program ? buffers_.limit_bytes() / 2 : 2 * buffers_.bytes();
  current_buffers = &buffers_;
  current_wake = &wake_;
  set_attributes();
  if (auto const code = cupti_.register_callbacks(buffer_requested, buffer_completed);
      code != CUPTI_SUCCESS) {
    return "CUPTI cannot be used: " + cupti_.describe(code);
  }
  head_.describe_process(file_.number());
  head_.start = now();
  head_.cupti_version = cupti_.version;
  head_.cupti = cupti_.path;
  head_.graph_nodes = settings_.graph_nodes;
  head_.range = settings_.range;
  head_.skip_ms = settings_.skip_ms;
  head_.duration_ms = settings_.duration_ms;
  head_.memory_limit_bytes = buffers_.limit_bytes();
  if (!settings_.plain && !can_compress()) {
    head_.notes.emplace_back("not compressed, since libz.so.1 is not on this machine");
  }
  writer_ = std::make_unique<EventWriter>(pid_, head_.start.recording);
  bool const has_windows =
      !settings_.range.empty() || settings_.skip_ms > 0 || settings_.duration_ms > 0;
  if (has_windows && !settings_.leaves_out("runtime")) {
    writer_->take_graphs_of_calls_alone();
  }
  enable_always();
  find_calls();
  current_recorder.store(this, std::memory_order_release);
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, [] { forget_in_child(); }); });
  if (settings_.in_program) {
    describe_context();
  }
  if (!settings_.range.empty()) {
    RangeLog::of_process().watch(settings_.range, on_watched_range);
  }
  if (settings_.range.empty() ? settings_.skip_ms == 0 : RangeLog::of_process().watched_is_open()) {
    open_window();
  }
  if (settings_.in_program && is_without_kernels_) {
    close_window();
    disable_always();
    current_recorder = nullptr;
    return "CUPTI cannot be used: " + foot_.notes.front();
  }
  // The thread must not run the program's signal handlers.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  // Blocked, a fault of the thread itself would end the process without a word.
  for (int const fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    sigdelset(&all, fault);
  }
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_of_program_ = std::thread([this] { run(); });
  if (!settings_.in_program) {
    thread_of_program_.detach();
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return {};
}

void Recorder::switch_by_time() {
  std::int64_t const ns = now().recording - head_.start.recording;
  if (settings_.range.empty() && settings_.skip_ms > 0 && ns >= settings_.skip_ms * 1'000'000) {
    open_window();
  }
  if (settings_.duration_ms == 0) {
    return;
  }
  std::int64_t recorded = 0;
  {
    std::lock_guard const lock(window_mutex_);
    for (auto const& [begin, end] : windows_) {
      recorded += (end < 0 ? ns : end) - begin;
    }
  }
  if (recorded >= settings_.duration_ms * 1'000'000) {
    close_window();
    std::lock_guard const lock(window_mutex_);
    windows_are_over_ = true;
  }
}

void Recorder::run() {
  thread_ = static_cast<std::uint32_t>(syscall(SYS_gettid));
  pthread_setname_np(pthread_self(), "msstream-record");
  std::int64_t next_tick = 0;
  if (settings_.in_program) {
    write_head(true);
  }
  while (why_ == 0) {
    timespec until{};
    clock_gettime(CLOCK_REALTIME, &until);
    int wait_ms = kTickMs;
    // Windows begin and end more exactly than ticks.
    if (settings_.duration_ms > 0 || settings_.skip_ms > 0) {
      wait_ms = 10;
    }
    until.tv_nsec += wait_ms * 1'000'000L;
    until.tv_sec += until.tv_nsec / 1'000'000'000;
    until.tv_nsec %= 1'000'000'000;
    while (sem_timedwait(&wake_, &until) != 0 && errno == EINTR) {
    }
    switch_by_time();
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    std::int64_t const ms = std::int64_t{time.tv_sec} * 1000 + time.tv_nsec / 1'000'000;
    // A program that records itself is left alone: its thread is woken if the buffers get full.
    bool const tick = !settings_.in_program && ms >= next_tick;
    if (tick) {
      next_tick = ms + kTickMs;
      write_head(false);
      // While CUPTI waits for the work of one GPU, calls for the others wait for CUPTI. A
      // collective that has begun on one of them would never end.
      if (devices_in_use() < 2) {
        cupti_.flush_all(0);
      }
    }
    if (!settings_.in_program || buffers_.is_half_full()) {
      drain();
    }
    if (tick) {
      add_ranges(false);
      writer_->settle(false);
    }
    if (head_is_written_ && (tick || writer_->bytes() > kPieceBytes)) {
      file_.write(writer_->take());
    }
  }
  end();
}

namespace {

void on_watched_range(bool begins) {
  if (Recorder* const recorder = Recorder::current()) {
    recorder->on_range(begins);
  }
}

}  // namespace

}  // namespace msstream::overlap::record
