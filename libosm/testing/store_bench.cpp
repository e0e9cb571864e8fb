#include "testing/store_bench.hpp"

#include <algorithm>
#include <boost/json/value.hpp>
#include <chrono>
#include <future>
#include <stdexcept>
#include <utility>

#include "base/json.hpp"
#include "osm/spec/kinds.hpp"

namespace osm::inline v1::testing {
namespace {

constexpr std::chrono::milliseconds kStoreRound{20};
constexpr int kStoreSettleRounds = 40;

Object read_one(const std::string& text) {
  const auto objects = spec::read_objects(text, "suite");
  if (!objects.ok()) throw std::logic_error(objects.error().text());
  return *objects->front();
}

}  // namespace

Object route_group(const std::string& name, const std::string& path, const char* ns) {
  return read_one(
      "{apiVersion: specs.smi-spec.io/v1alpha4, kind: HTTPRouteGroup, metadata: {name: " + name +
      ", namespace: " + ns + "}, spec: {matches: [{name: all, pathRegex: '" + path + "'}]}}");
}

Object service(const std::string& name) {
  return read_one("{apiVersion: v1, kind: Service, metadata: {name: " + name +
                  ", namespace: shop}, spec: {selector: {app: " + name +
                  "}, ports: [{name: http, port: 80}]}}");
}

std::string path_of(const ObjectPtr& object) {
  if (!object) return {};
  const auto& matches = list_at(map_at(*object->document, "spec"), "matches");
  return matches.empty() ? "?" : text_at(matches.front(), "pathRegex");
}

StoreBench::StoreBench(const StorePlatformFactory& factory, const StoreConformanceOptions& options,
                       OnStep on_step)
    : options_(options), on_step_(std::move(on_step)), platform_(factory()) {}

StoreBench::~StoreBench() {
  step("destroying the store");
  told_by_.reset();
  for (std::thread& caller : callers_) caller.join();
  store_.reset();
  step("destroying the platform");
  platform_.reset();
}

void StoreBench::start() {
  step("starting the store");
  store_ = platform_->start({executor_, executor_, clock_, rng_, log_, metrics_});
  told_by_ = store_->subscribe([this](const std::vector<ObjectKey>& keys) {
    const std::lock_guard lock(mutex_);
    ++calls_;
    for (const ObjectKey& key : keys) {
      told_.push_back(key.ns + '/' + key.name);
      if (expected_ && !expected_(key)) ++surprises_;
    }
  });
}

bool StoreBench::start_synced() {
  start();
  return wait([this] { return store_->has_synced(); });
}

bool StoreBench::wait(const std::function<bool()>& condition) {
  const auto end = RealTime::now() + options_.deadline;
  for (;;) {
    if (condition()) return true;
    run_round();
    if (condition()) return true;
    if (RealTime::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void StoreBench::settle() {
  for (int round = 0; round < kStoreSettleRounds; ++round) {
    run_round();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void StoreBench::run_round() {
  platform_->pump();
  executor_.run_for(kStoreRound);
}

bool StoreBench::put(const Object& object) {
  platform_->put(object);
  return reads(object);
}

bool StoreBench::reads(const Object& object) {
  return wait([&] {
    const ObjectPtr known = store_->get(object.key);
    return known && path_of(known) == path_of(std::make_shared<const Object>(object));
  });
}

std::vector<std::string> StoreBench::names() {
  std::vector<std::string> names;
  for (const ObjectPtr& object : store_->list(kinds::kHttpRouteGroup))
    names.push_back(object->key.ns + '/' + object->key.name);
  return names;
}

std::vector<std::string> StoreBench::told() {
  const std::lock_guard lock(mutex_);
  auto told = std::exchange(told_, {});
  std::ranges::sort(told);
  told.erase(std::ranges::unique(told).begin(), told.end());
  return told;
}

std::size_t StoreBench::calls() const {
  const std::lock_guard lock(mutex_);
  return calls_;
}

void StoreBench::expect(std::function<bool(const ObjectKey&)> expected) {
  const std::lock_guard lock(mutex_);
  expected_ = std::move(expected);
  surprises_ = 0;
}

std::size_t StoreBench::surprises() const {
  const std::lock_guard lock(mutex_);
  return surprises_;
}

bool StoreBench::catch_up(const ObjectKey& key, std::chrono::milliseconds timeout) {
  step("catching up with " + key.str());
  auto done = std::async(std::launch::async, [&] { return store_->catch_up(key, timeout); });
  while (done.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) run_round();
  return done.get();
}

bool StoreBench::in_time(std::function<void()> call) {
  std::packaged_task<void()> task(std::move(call));
  auto done = task.get_future();
  callers_.emplace_back(std::move(task));
  return done.wait_for(options_.call_limit) == std::future_status::ready;
}

}  // namespace osm::inline v1::testing
