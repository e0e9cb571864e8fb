#include "dns/answer.hpp"

#include <ares.h>
#include <ares_dns.h>
#include <arpa/inet.h>
#include <arpa/nameser.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>

namespace osm::inline v1::dns {
namespace {

using Bytes = std::span<const unsigned char>;

Outcome parse_outcome(int status) {
  switch (status) {
    case ARES_SUCCESS:
      return Outcome::kAnswered;
    case ARES_ENODATA:
      return Outcome::kNoData;
    default:
      return Outcome::kRefused;
  }
}

template <class Address>
std::string literal(int family, const Address& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  return ::inet_ntop(family, &address, text.data(), text.size()) == nullptr
             ? ""
             : std::string(text.data());
}

// `Entry` has the address in its first member, and the TTL.
template <class Entry, class Parse>
Answer read_addresses(int family, Bytes message, const Parse& parse) {
  std::vector<Entry> entries(kMaxRecords);
  int count = static_cast<int>(entries.size());
  Answer out;
  out.outcome = parse_outcome(
      parse(message.data(), static_cast<int>(message.size()), nullptr, entries.data(), &count));
  if (out.outcome != Outcome::kAnswered) return out;
  int ttl = INT32_MAX;
  for (int i = 0; i < count; ++i) {
    const Entry& entry = entries[static_cast<std::size_t>(i)];
    if constexpr (requires { entry.ipaddr; })
      out.records.push_back({.target = literal(family, entry.ipaddr)});
    else
      out.records.push_back({.target = literal(family, entry.ip6addr)});
    ttl = std::min(ttl, entry.ttl);
  }
  out.ttl = std::chrono::seconds(std::max(0, ttl));
  return out;
}

// Number of bytes of a name at the front of `rest`; nullopt: it is none.
std::optional<std::size_t> name_length(Bytes message, Bytes rest) {
  char* name = nullptr;
  long length = 0;
  if (rest.empty() ||
      ares_expand_name(rest.data(), message.data(), static_cast<int>(message.size()), &name,
                       &length) != ARES_SUCCESS)
    return std::nullopt;
  ares_free_string(name);
  if (length <= 0 || static_cast<std::size_t>(length) > rest.size()) return std::nullopt;
  return static_cast<std::size_t>(length);
}

// The least TTL of the answer section, which c-ares 1.18 does not tell for SRV records.
std::optional<std::uint32_t> least_ttl(Bytes message) {
  if (message.size() < HFIXEDSZ) return std::nullopt;
  Bytes rest = message.subspan(HFIXEDSZ);
  for (unsigned i = DNS_HEADER_QDCOUNT(message.data()); i > 0; --i) {
    const auto name = name_length(message, rest);
    if (!name || rest.size() - *name < QFIXEDSZ) return std::nullopt;
    rest = rest.subspan(*name + QFIXEDSZ);
  }
  std::optional<std::uint32_t> least;
  for (unsigned i = DNS_HEADER_ANCOUNT(message.data()); i > 0; --i) {
    const auto name = name_length(message, rest);
    if (!name || rest.size() - *name < RRFIXEDSZ) return std::nullopt;
    rest = rest.subspan(*name);
    const auto ttl = static_cast<std::uint32_t>(DNS_RR_TTL(rest.data()));
    const std::size_t length = DNS_RR_LEN(rest.data());
    if (rest.size() - RRFIXEDSZ < length) return std::nullopt;
    rest = rest.subspan(RRFIXEDSZ + length);
    least = std::min(ttl, least.value_or(ttl));
  }
  return least;
}

Answer read_services(Bytes message) {
  ares_srv_reply* first = nullptr;
  Answer out;
  out.outcome =
      parse_outcome(ares_parse_srv_reply(message.data(), static_cast<int>(message.size()), &first));
  const std::unique_ptr<ares_srv_reply, void (*)(void*)> owned(first, ares_free_data);
  for (const ares_srv_reply* each = first; each && out.records.size() < kMaxRecords;
       each = each->next) {
    const auto question = question_of("A:" + normal_dns_name(each->host));
    // A host "." says that there is no such service (RFC 2782). Port 0 cannot be dialled.
    if (question && each->port != 0)
      out.records.push_back({question->name, each->port, each->priority, each->weight});
  }
  if (out.outcome == Outcome::kAnswered && out.records.empty()) out.outcome = Outcome::kNoData;
  // Bounded like a year: the caller has limits of its own.
  constexpr std::uint32_t kYear = 366 * 86400;
  out.ttl = std::chrono::seconds(std::min(least_ttl(message).value_or(0), kYear));
  return out;
}

}  // namespace

std::string_view outcome_text(Outcome outcome) {
  switch (outcome) {
    case Outcome::kAnswered:
      return "answered";
    case Outcome::kNoData:
      return "no-data";
    case Outcome::kNotFound:
      return "no-name";
    case Outcome::kRefused:
      return "refused";
    case Outcome::kSilent:
      break;
  }
  return "silent";
}

Answer read_answer(RecordType type, Bytes message) {
  Answer out;
  switch (type) {
    case RecordType::kA:
      out = read_addresses<ares_addrttl>(AF_INET, message, ares_parse_a_reply);
      break;
    case RecordType::kAaaa:
      out = read_addresses<ares_addr6ttl>(AF_INET6, message, ares_parse_aaaa_reply);
      break;
    case RecordType::kSrv:
      out = read_services(message);
      break;
  }
  std::sort(out.records.begin(), out.records.end());
  out.records.erase(std::unique(out.records.begin(), out.records.end()), out.records.end());
  if (out.outcome == Outcome::kAnswered && out.records.empty()) out.outcome = Outcome::kNoData;
  return out;
}

}  // namespace osm::inline v1::dns
