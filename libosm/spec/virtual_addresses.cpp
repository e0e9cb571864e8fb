#include "spec/virtual_addresses.hpp"

#include <arpa/inet.h>

#include <array>
#include <utility>

#include "base/digest.hpp"
#include "base/numbers.hpp"
#include "model/ip_address.hpp"
#include "model/spec_tables.hpp"
#include "osm/spec/object_mesh_spec.hpp"

namespace osm::inline v1::spec {
namespace {

// A longer prefix leaves fewer than 256 addresses. A shorter one could hold loopback or multicast
// addresses besides others.
constexpr unsigned kShortest = 8;
constexpr unsigned kLongest = 24;

std::uint32_t number_of_address(const std::string& text) {
  in_addr parsed{};
  return inet_pton(AF_INET, text.c_str(), &parsed) == 1 ? ntohl(parsed.s_addr) : 0;
}

std::string text_of_address(std::uint32_t address) {
  const in_addr raw{htonl(address)};
  std::array<char, INET_ADDRSTRLEN> text{};
  inet_ntop(AF_INET, &raw, text.data(), text.size());
  return text.data();
}

Error refused(const std::string& text, const std::string& why) {
  return {ErrorCode::kInvalidArgument, "'" + text + "' cannot be the network of Services: " + why +
                                           "; give one that nobody routes, such as 240.240.0.0/12"};
}

std::uint32_t word(const Digest& digest, std::size_t at) {
  std::uint32_t out = 0;
  for (std::size_t i = 0; i < 4; ++i) out = out << 8 | digest.bytes[at + i];
  return out;
}

}  // namespace

Result<ServiceNetwork> ServiceNetwork::parse(const std::string& text) {
  const auto slash = text.find('/');
  const std::string address = text.substr(0, slash);
  constexpr unsigned kNone = 33;
  const unsigned length = slash == std::string::npos
                              ? kNone
                              : osm::number_of<unsigned>(text.substr(slash + 1)).value_or(kNone);
  if (!model::is_ipv4(address) || length >= kNone) return refused(text, "it is no IPv4 network");
  if (length > kLongest) return refused(text, "it has fewer than 256 addresses");
  if (length < kShortest) return refused(text, "its prefix length is below 8");
  const std::uint32_t size = std::uint32_t{1} << (32 - length);
  const std::uint32_t first = number_of_address(address);
  if ((first & (size - 1)) != 0)
    return refused(text, "it begins at " + text_of_address(first & ~(size - 1)));
  if (!model::is_unicast_ipv4(text_of_address(first + 1)))
    return refused(text, "no host can have its addresses");
  return ServiceNetwork(text, first, size);
}

// Double hashing: the step is odd and the size of a network a power of two, so each address has its
// turn.
ServiceNetwork::Sequence ServiceNetwork::sequence_of(const ServiceName& service) {
  const Digest digest = digest_of(service.str());
  return {word(digest, 0), word(digest, 4) | 1};
}

VirtualAddresses::VirtualAddresses(const std::string& network) {
  if (network.empty()) return;
  if (auto parsed = ServiceNetwork::parse(network)) network_ = *std::move(parsed);
}

VirtualAddresses::Taken VirtualAddresses::written_in(const SharedList<Service>& services) const {
  Taken taken;
  for (const auto& service : services) {
    const std::uint32_t written = number_of_address(service->cluster_ip);
    if (!network_->gives(written)) continue;
    Holder& holder = taken[written];
    if (!holder.service || service->created < holder.service->created) holder.service = service;
  }
  return taken;
}

// The Service with its address; null: none is free. Updates `given` and `taken`.
std::shared_ptr<const Service> VirtualAddresses::addressed(
    const std::shared_ptr<const Service>& written, Given& given, Taken& taken) const {
  std::uint32_t address = 0;
  for (std::uint32_t turn = 0; address == 0; ++turn) {
    if (turn > network_->usable() + 1) return nullptr;
    const std::uint32_t next = network_->candidate(given.sequence, turn);
    if (!network_->gives(next)) continue;
    Holder& holder = taken[next];
    // Who writes another's address does not move it away.
    if (holder.service && (holder.given || !(written->created < holder.service->created))) continue;
    holder = {written, true};
    address = next;
  }
  std::string text = text_of_address(address);
  if (given.written == written && given.service->cluster_ip == text) return given.service;
  Service made = *written;
  made.cluster_ip = std::move(text);
  made.assigned = true;
  given.written = written;
  given.service = std::make_shared<const Service>(std::move(made));
  return given.service;
}

// Services that have written an address which another one was given keep all but the address.
void VirtualAddresses::refuse_taken(SharedList<Service>& services, const Taken& taken,
                                    std::vector<Problem>& problems) {
  std::map<ServiceName, Given> refused;
  for (auto& service : services) {
    const auto at = taken.find(number_of_address(service->cluster_ip));
    if (service->assigned || at == taken.end() || !at->second.given) continue;
    problems.push_back(
        {ErrorCode::kConflictingAddress, model::key_of(*service), "", 0, "spec.clusterIP",
         service->cluster_ip + " already belongs to Service " + at->second.service->name.str() +
             ", which is older; this Service has no address: write one outside of " +
             network_->text() + ", or none"});
    Given& now = refused[service->name];
    if (const auto held = refused_.find(service->name);
        held != refused_.end() && held->second.written == service) {
      now = held->second;
    } else {
      Service made = *service;
      made.cluster_ip.clear();
      now = {{}, service, std::make_shared<const Service>(std::move(made))};
    }
    service = now.service;
  }
  refused_ = std::move(refused);
}

std::vector<VirtualAddresses::Move> VirtualAddresses::settle(SharedList<Service>& services,
                                                             std::vector<Problem>& problems) {
  std::vector<Move> moves;
  if (!network_) return moves;
  Taken taken = written_in(services);
  std::map<ServiceName, Given> given;
  std::erase_if(services, [&](std::shared_ptr<const Service>& service) {
    if (service->headless || !service->cluster_ip.empty()) return false;
    const auto held = given_.find(service->name);
    const bool known = held != given_.end();
    Given now =
        known ? held->second : Given{ServiceNetwork::sequence_of(service->name), nullptr, nullptr};
    const auto made = addressed(service, now, taken);
    if (!made) {
      problems.push_back({ErrorCode::kConflictingAddress, model::key_of(*service), "", 0,
                          "spec.clusterIP",
                          "no address of " + network_->text() +
                              " is free; start the controllers with a larger --service-cidr, or "
                              "write an address of another network"});
      return true;
    }
    if (known && held->second.service->cluster_ip != made->cluster_ip)
      moves.push_back({service->name, held->second.service->cluster_ip, made->cluster_ip});
    given.emplace(service->name, std::move(now));
    service = made;
    return false;
  });
  given_ = std::move(given);
  refuse_taken(services, taken, problems);
  return moves;
}

Status check_service_network(const std::string& network) {
  auto parsed = ServiceNetwork::parse(network);
  if (!parsed) return parsed.error();
  return {};
}

}  // namespace osm::inline v1::spec
