#include "ads/class_table.hpp"

#include <algorithm>
#include <utility>

#include "ads/metrics.hpp"
#include "model/names.hpp"

namespace osm::inline v1::ads {
namespace {

// Wipes key material when the last holder releases it.
EncodedPtr wiped_when_released(EncodedResource resource) {
  return EncodedPtr(new EncodedResource(std::move(resource)), [](EncodedResource* secret) {
    erase(secret->any);
    delete secret;
  });
}

}  // namespace

ClassTable::ClassTable(ClassTableDependencies dependencies)
    : deps_(std::move(dependencies)), cache_(deps_.runtime.metrics) {
  meshes_.emplace(0, std::make_shared<ClassMesh>());
}

ClassTable::~ClassTable() {
  gate_.close();
  for (const auto& [identity, state] : identities_) deps_.secrets.release(identity);
}

std::set<StreamId> ClassTable::on_mesh(std::uint64_t number, ClassMesh newer,
                                       const model::Changes& changes, SteadyTime since) {
  std::shared_ptr<ClassMesh>& mesh = meshes_[number];
  if (!mesh) mesh = std::make_shared<ClassMesh>();
  newer.untouched = std::move(mesh->present);
  *mesh = std::move(newer);
  std::set<ProxyClassPtr> touched;
  if (changes.everything) {
    for (const auto& [key, entry] : classes_) touched.insert(entry);
  } else {
    touch_services(*mesh, changes.services, touched);
    for (const ServiceIdentity& identity : changes.identities)
      if (const Identity* state = find_in(identities_, identity))
        touched.insert(state->classes.begin(), state->classes.end());
    for (const TelemetryName& telemetry : changes.telemetries)
      for (const auto& [key, entry] : classes_)
        if (key.telemetry == telemetry) touched.insert(entry);
  }
  const auto elsewhere = [&](const ProxyClassPtr& entry) { return entry->mesh_ != mesh; };
  std::erase_if(touched, elsewhere);
  for (const ProxyClassPtr& entry : building_) {
    if (elsewhere(entry)) continue;
    entry->missed_services_.insert(changes.services.begin(), changes.services.end());
    entry->missed_endpoints_.insert(changes.endpoints.begin(), changes.endpoints.end());
    entry->missed_at_ = std::min(entry->missed_at_, since);
  }
  std::set<StreamId> members;
  for (const ProxyClassPtr& entry : touched) {
    members.insert(entry->members_.begin(), entry->members_.end());
    touch(entry, since);
  }
  for (const ServiceName& service : changes.endpoints) {
    for_each_reader(service, [&](const ProxyClassPtr& entry) {
      if (elsewhere(entry)) return;
      note_touched(*entry, since);
      entry->touched_endpoints_.insert(service);
      enqueue(entry);
    });
  }
  pump();
  return members;
}

void ClassTable::touch_services(const ClassMesh& mesh, const std::set<ServiceName>& services,
                                std::set<ProxyClassPtr>& touched) {
  for (const ServiceName& service : services) {
    std::size_t readers = 0;
    for_each_reader(service, [&](const ProxyClassPtr& entry) {
      touched.insert(entry);
      ++readers;
    });
    // In permissive mode all workloads call each other: a new service concerns all classes.
    if (mesh.snapshot->config.proxy.permissive && readers < classes_.size())
      for (const auto& [key, entry] : classes_) touched.insert(entry);
  }
  // A new service has a name for all machines that ask for names.
  if (services.empty()) return;
  for (const auto& [key, entry] : classes_)
    if (key.dns) touched.insert(entry);
}

void ClassTable::note_touched(ProxyClassEntry& entry, SteadyTime since) {
  if (entry.current()) entry.held_ = entry.mesh_->untouched;
  entry.touched_at_ = std::min(entry.touched_at_, since);
}

void ClassTable::touch(const ProxyClassPtr& entry, SteadyTime since) {
  note_touched(*entry, since);
  entry->touched_ = true;
  enqueue(entry);
}

void ClassTable::enqueue(const ProxyClassPtr& entry) {
  // A running build enqueues its class again when it ends.
  if (entry->queued_ || entry->building_ || entry->members_.empty()) return;
  entry->queued_ = true;
  entry->queued_at_ = deps_.runtime.clock.steady_now();
  queue_.push_back(entry);
}

void ClassTable::pump() {
  while (building_.size() < kParallelBuilds && !queue_.empty() && queue_.front()->mesh_->snapshot) {
    ProxyClassPtr entry = std::move(queue_.front());
    queue_.pop_front();
    entry->queued_ = false;
    if (entry->members_.empty()) continue;  // they have left, and it may have been dropped
    entry->building_ = true;
    entry->building_from_ = std::exchange(entry->touched_at_, SteadyTime::max());
    building_.insert(entry);
    deps_.runtime.metrics.observe(kPushStage, {{"stage", "class"}},
                                  deps_.runtime.clock.steady_now() - entry->queued_at_);
    const MeshVersion version = entry->mesh_->present;
    BuildJob job{entry->mesh_->snapshot,
                 entry->mesh_->without,
                 entry->class_,
                 entry->sets_,
                 std::exchange(entry->touched_, false) || !entry->built_ || entry->may_freeze(),
                 {entry->touched_endpoints_.begin(), entry->touched_endpoints_.end()},
                 deps_.hook};
    entry->touched_endpoints_.clear();
    deps_.runtime.executor.post(gate_.guard([this, entry, version, job = std::move(job)] {
      const SteadyTime started = deps_.runtime.clock.steady_now();
      auto result = std::make_shared<BuildResult>(build(job, cache_));
      deps_.runtime.metrics.observe(kPushStage, {{"stage", "translate"}},
                                    deps_.runtime.clock.steady_now() - started);
      deps_.strand.post([this, entry, result, version, everything = job.everything] {
        finish(entry, std::move(*result), version, everything);
      });
    }));
  }
}

void ClassTable::finish(const ProxyClassPtr& entry, BuildResult result, const MeshVersion& version,
                        bool everything) {
  building_.erase(entry);
  entry->building_ = false;
  report_faults(*entry, std::move(result.faults));
  if (result.failed) {
    // Its members keep the sets of before, if there are any; the next build is a whole one.
    entry->touched_ = true;
    entry->touched_at_ = std::min({entry->touched_at_, entry->building_from_, entry->missed_at_});
    forget_missed(*entry);
    failed_.insert(entry);
    return pump();
  }
  for (XdsType type : kXdsTypes) {
    ResourceSetPtr& set = result.sets[index_of(type)];
    // Keep the present secrets: they may have changed meanwhile, the build does not compute them,
    // and they are not shared.
    set = type == XdsType::kSecret ? entry->sets_[index_of(type)] : shared(std::move(set));
  }
  const bool changed = !entry->built_ || result.sets != entry->sets_;
  entry->sets_ = std::move(result.sets);
  entry->built_ = true;
  if (changed) entry->superseded_ = entry->held_.generation;
  entry->held_ = version;
  if (everything) index(entry, std::move(result.reads));
  catch_up(entry);
  if (entry->touched_ || !entry->touched_endpoints_.empty()) enqueue(entry);
  if (changed) {
    entry->changed_at_ = entry->building_from_;
    deps_.on_changed(entry);
  } else {
    deps_.on_unchanged(entry);
  }
  pump();
}

void ClassTable::report_faults(ProxyClassEntry& entry, std::vector<std::string> faults) {
  if (faults != entry.faults_)
    for (const std::string& fault : faults)
      deps_.runtime.log.error("resources were left out of a proxy's configuration",
                              {{"code", std::string(error_code_text(ErrorCode::kInternal))},
                               {"identity", entry.class_.identity.str()},
                               {"detail", fault}});
  entry.faults_ = std::move(faults);
}

void ClassTable::retry_failed() {
  const SteadyTime now = deps_.runtime.clock.steady_now();
  if (failed_.empty() || now < retry_at_) return;
  retry_at_ = now + kRetry;
  for (const ProxyClassPtr& entry : std::exchange(failed_, {})) enqueue(entry);
  pump();
}

void ClassTable::catch_up(const ProxyClassPtr& entry) {
  if (entry->reads_) {
    for (const ServiceName& service : entry->reads_->first) {
      if (entry->missed_services_.contains(service)) entry->touched_ = true;
      if (entry->missed_endpoints_.contains(service)) entry->touched_endpoints_.insert(service);
    }
    if (entry->touched_ || !entry->touched_endpoints_.empty())
      entry->touched_at_ = std::min(entry->touched_at_, entry->missed_at_);
  }
  forget_missed(*entry);
}

void ClassTable::forget_missed(ProxyClassEntry& entry) {
  entry.missed_services_.clear();
  entry.missed_endpoints_.clear();
  entry.missed_at_ = SteadyTime::max();
}

// Classes with equal sets share one set, above all the endpoints of permissive mode.
ResourceSetPtr ClassTable::shared(ResourceSetPtr set) {
  if (!set) return set;
  std::weak_ptr<const ResourceSet>& known = sets_[set->version()];
  if (ResourceSetPtr same = known.lock()) return same;
  known = set;
  return set;
}

void ClassTable::for_each_reader(const ServiceName& service,
                                 const std::function<void(const ProxyClassPtr&)>& visit) const {
  const std::set<ReadList*>* lists = find_in(readers_, service);
  if (!lists) return;
  for (const ReadList* list : *lists)
    for (const ProxyClassPtr& entry : list->second) visit(entry);
}

void ClassTable::index(const ProxyClassPtr& entry, std::vector<ServiceName> reads) {
  if (entry->reads_ && entry->reads_->first == reads) return;
  unindex(entry);
  const auto [at, fresh] = read_lists_.try_emplace(std::move(reads));
  if (fresh)
    for (const ServiceName& service : at->first) readers_[service].insert(&*at);
  at->second.insert(entry);
  entry->reads_ = &*at;
}

void ClassTable::unindex(const ProxyClassPtr& entry) {
  ReadList* const list = std::exchange(entry->reads_, nullptr);
  if (!list) return;
  list->second.erase(entry);
  if (!list->second.empty()) return;
  for (const ServiceName& service : list->first) remove_member(readers_, service, list);
  read_lists_.erase(read_lists_.find(list->first));
}

// Result: the trust bundle is another one.
bool ClassTable::refresh_roots() {
  const std::string pem = deps_.secrets.trust_bundle_pem();
  const Digest digest = digest_of(pem);
  if (std::exchange(trust_bundle_, digest) == digest) return false;
  roots_ = std::make_shared<const EncodedResource>(translate::encode_root_cert(pem));
  count_encoded();
  return true;
}

void ClassTable::refresh_certificate(const ServiceIdentity& identity, Identity& state) {
  const certificate::CertificatePtr certificate = deps_.secrets.certificate_for(identity);
  if (!certificate) return;  // the source notifies when it is there
  state.facts = {certificate->issuer_id, model::trust_domain_of(certificate->subject.spiffe_id)};
  state.certificate = wiped_when_released(translate::encode_service_cert(*certificate));
  count_encoded();
  if (!roots_) (void)refresh_roots();
  join_secrets(state);
}

void ClassTable::join_secrets(Identity& state) {
  ResourceSetPtr secrets = ResourceSet::make({roots_, state.certificate});
  if (!state.secrets || state.secrets->version() != secrets->version())
    state.secrets = std::move(secrets);
}

void ClassTable::count_encoded() {
  deps_.runtime.metrics.add(kResourcesEncoded, {{"type", xds_type_text(XdsType::kSecret)}}, 1);
}

void ClassTable::on_secrets(const std::optional<ServiceIdentity>& identity) {
  if (identity) {
    Identity* state = find_in(identities_, *identity);
    if (!state) return;
    refresh_certificate(*identity, *state);
    return give_secrets(*state);
  }
  if (!roots_ || !refresh_roots()) return;
  for (auto& [name, state] : identities_) {
    if (!state.certificate) continue;
    join_secrets(state);
    give_secrets(state);
  }
}

void ClassTable::give_secrets(const Identity& state) {
  for (const ProxyClassPtr& entry : state.classes) {
    ResourceSetPtr& secrets = entry->sets_[index_of(XdsType::kSecret)];
    if (secrets == state.secrets) continue;
    entry->superseded_ = generation_of(*entry);
    entry->changed_at_ = secrets ? deps_.runtime.clock.steady_now() : SteadyTime::max();
    secrets = state.secrets;
    if (entry->built_) deps_.on_changed(entry);
  }
}

const SecretFacts* ClassTable::secret_facts(const ServiceIdentity& identity) const {
  const Identity* state = find_in(identities_, identity);
  return state && state->secrets ? &state->facts : nullptr;
}

void ClassTable::rebuild_all() {
  for (const auto& [number, mesh] : meshes_) mesh->untouched = mesh->present;
  const SteadyTime now = deps_.runtime.clock.steady_now();
  for (const auto& [key, entry] : classes_) touch(entry, now);
  pump();
}

ProxyClassPtr ClassTable::join(const translate::ProxyClass& proxy_class, StreamId member) {
  ProxyClassPtr& entry = classes_[proxy_class];
  if (!entry) {
    entry = ProxyClassPtr(new ProxyClassEntry(proxy_class, meshes_.at(proxy_class.mesh)));
    Identity& identity = identities_[proxy_class.identity];
    identity.classes.insert(entry);
    if (!identity.secrets) refresh_certificate(proxy_class.identity, identity);
    entry->sets_[index_of(XdsType::kSecret)] = identity.secrets;
  }
  const bool stale = entry->touched_ || !entry->touched_endpoints_.empty();
  // A class without members was not kept current: its sets count again after they are rebuilt, and
  // no proxy waited for the changes meanwhile.
  if (stale && entry->members_.empty()) {
    entry->built_ = false;
    entry->touched_at_ = SteadyTime::max();
  }
  entry->members_.insert(member);
  entry->idle_since_.reset();
  if (stale) enqueue(entry);
  pump();
  return entry;
}

void ClassTable::leave(const ProxyClassPtr& entry, StreamId member) {
  entry->members_.erase(member);
  if (entry->members_.empty()) entry->idle_since_ = deps_.runtime.clock.steady_now();
}

void ClassTable::drop_idle() {
  std::erase_if(sets_, [](const auto& known) { return known.second.expired(); });
  const SteadyTime now = deps_.runtime.clock.steady_now();
  for (auto at = classes_.begin(); at != classes_.end();) {
    const ProxyClassPtr entry = at->second;
    if (!entry->idle_since_ || now - *entry->idle_since_ < kIdle || entry->building_) {
      ++at;
      continue;
    }
    unindex(entry);
    at = classes_.erase(at);
    auto identity = identities_.find(entry->class_.identity);
    identity->second.classes.erase(entry);
    if (!identity->second.classes.empty()) continue;
    identities_.erase(identity);
    deps_.secrets.release(entry->class_.identity);
  }
}

}  // namespace osm::inline v1::ads
