// A digest is not made of a value that feed() cannot see all of.
#include "base/feed.hpp"

struct Seen {
  int open = 0;
};

class Hidden {
 public:
  explicit Hidden(int value) : hidden_(value) {}
  int hidden() const { return hidden_; }

 private:
  int hidden_;
};

struct Holder {
#ifdef PrivateMember
  Hidden member{1};
#elif defined(Pointer)
  const int* member = nullptr;
#elif defined(Fraction)
  double member = 0;
#else
  Seen member{};
#endif
};

int main() {
  osm::DigestBuilder digest;
  osm::feed(digest, Holder{});
}
