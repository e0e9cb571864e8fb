#include "nack_provenance/withheld_spec.hpp"

#include <algorithm>
#include <utility>

namespace osm::inline v1::nack_provenance {

WithheldSpec::WithheldSpec(MeshSpec& spec, Executor& executor, const Clock& clock)
    : spec_(spec), strand_(executor), pulse_("mesh specification", strand_, clock) {
  spec_changes_ = spec_.subscribe([this](const std::vector<ObjectKey>& changed) {
    strand_.post([this, changed] {
      lift(changed);
      changed_.notify(changed);
    });
  });
}

WithheldSpec::~WithheldSpec() { stop(); }

void WithheldSpec::stop() {
  spec_changes_.reset();
  strand_.stop();
}

std::shared_ptr<const WithheldSpec::Entries> WithheldSpec::entries() const {
  std::lock_guard lock(mutex_);
  return entries_;
}

void WithheldSpec::withhold(Problem problem, const model::SpecObjects& refused,
                            const MeshConfig& good) {
  const ObjectKey key = problem.object;
  Entry entry{std::move(problem), model::only(refused, key), good};
  if (!applies(entry)) return;
  {
    std::lock_guard lock(mutex_);
    Entries next = *entries_;
    next.insert_or_assign(key, std::move(entry));
    entries_ = std::make_shared<const Entries>(std::move(next));
  }
  strand_.post([this, key] { changed_.notify({key}); });
}

// True if the object still has the value that was refused.
bool WithheldSpec::applies(const Entry& entry) const {
  const ObjectKey& key = entry.problem.object;
  if (key.is(kinds::kMeshConfig)) return spec_.get_mesh_config() == entry.refused.config;
  bool refused = false;
  model::for_each_list([&](auto list, auto read) {
    if ((entry.refused.*list).empty()) return;
    const auto now = model::find((spec_.*read)(), key);
    refused = now && *now == *(entry.refused.*list).front();
  });
  return refused;
}

void WithheldSpec::lift(const std::vector<ObjectKey>& changed) {
  const auto concerned = [&](const ObjectKey& key) {
    return std::any_of(changed.begin(), changed.end(), [&](const ObjectKey& one) {
      // Objects of a removed namespace are not announced. There is one MeshConfig.
      return one == key || one.is(kinds::kNamespace) ||
             (one.is(kinds::kMeshConfig) && key.is(kinds::kMeshConfig));
    });
  };
  Entries next = *entries();
  const auto lifted = std::erase_if(next, [&](const auto& withheld) {
    return concerned(withheld.first) && !applies(withheld.second);
  });
  if (lifted == 0) return;
  std::lock_guard lock(mutex_);
  for (const auto& [key, entry] : *entries_)  // withheld meanwhile
    if (!concerned(key)) next.try_emplace(key, entry);
  entries_ = std::make_shared<const Entries>(std::move(next));
}

template <class T>
SharedList<T> WithheldSpec::left(SharedList<T> list,
                                 SharedList<T> model::SpecObjects::*refused) const {
  const auto withheld = entries();
  if (withheld->empty()) return list;
  std::erase_if(list, [&](const auto& object) {
    const auto at = withheld->find(model::key_of(*object));
    return at != withheld->end() && *(at->second.refused.*refused).front() == *object;
  });
  return list;
}

SharedList<smi::TrafficSplit> WithheldSpec::list_traffic_splits() const {
  return left(spec_.list_traffic_splits(), &model::SpecObjects::splits);
}
SharedList<smi::HttpRouteGroup> WithheldSpec::list_http_traffic_specs() const {
  return left(spec_.list_http_traffic_specs(), &model::SpecObjects::http_routes);
}
SharedList<smi::TcpRoute> WithheldSpec::list_tcp_traffic_specs() const {
  return left(spec_.list_tcp_traffic_specs(), &model::SpecObjects::tcp_routes);
}
SharedList<smi::TrafficTarget> WithheldSpec::list_traffic_targets() const {
  return left(spec_.list_traffic_targets(), &model::SpecObjects::targets);
}
SharedList<Policy> WithheldSpec::list_policies() const {
  return left(spec_.list_policies(), &model::SpecObjects::policies);
}
SharedList<Service> WithheldSpec::list_services() const {
  return left(spec_.list_services(), &model::SpecObjects::services);
}

std::shared_ptr<const Service> WithheldSpec::get_service(const ServiceName& name) const {
  auto service = spec_.get_service(name);
  if (!service) return service;
  return left(SharedList<Service>{service}, &model::SpecObjects::services).empty() ? nullptr
                                                                                   : service;
}

MeshConfig WithheldSpec::get_mesh_config() const {
  const MeshConfig config = spec_.get_mesh_config();
  const auto withheld = entries();
  for (const auto& [key, entry] : *withheld)
    if (key.is(kinds::kMeshConfig) && entry.refused.config == config) return entry.good;
  return config;
}

std::vector<Problem> WithheldSpec::list_problems() const {
  std::vector<Problem> problems = spec_.list_problems();
  const auto withheld = entries();
  for (const auto& [key, entry] : *withheld) {
    problems.push_back(entry.problem);
    problems.back().locate(spec_.source_of(key));
  }
  std::sort(problems.begin(), problems.end());
  return problems;
}

}  // namespace osm::inline v1::nack_provenance
