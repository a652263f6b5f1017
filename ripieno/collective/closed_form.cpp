#include "ripieno/collective/closed_form.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>

namespace ripieno::collective {
namespace {

int largest_power(World world) { return static_cast<int>(std::bit_floor(static_cast<unsigned>(world.ranks))); }
int fullest_node(World world) { return std::min(world.per_node, world.ranks); }

/// Parses a form from left to right and evaluates it on the way.
class FormReader {
 public:
  FormReader(std::string_view form, World world, double n) : form_(form), world_(world), n_(n) {}

  double all() {
    const double value = sum();
    if (!rest().empty()) wrong();
    return value;
  }

 private:
  double sum() {
    double value = product();
    while (true) {
      if (take("+")) {
        value += product();
      } else if (take("-")) {
        value -= product();
      } else {
        return value;
      }
    }
  }

  double product() {
    double value = factor();
    while (true) {
      if (take("/")) {
        value /= factor();
      } else if (take("*") || begins_factor()) {
        value *= factor();
      } else {
        return value;
      }
    }
  }

  double factor() {
    if (take("(")) return closed(sum());
    if (take("ceil(")) return std::ceil(closed(sum()));
    if (take("floor(")) return std::floor(closed(sum()));
    if (take("log2")) return std::log2(factor());
    if (take("min(")) {
      const double first = sum();
      if (!take(",")) wrong();
      return std::min(first, closed(sum()));
    }
    if (take("n")) return n_;
    if (take("P")) return world_.ranks;
    if (take("Q")) return largest_power(world_);
    if (take("M")) return fullest_node(world_);
    if (take("N")) return world_.nodes();
    double number = 0;
    if (rest().empty() || !std::isdigit(static_cast<unsigned char>(rest()[0]))) wrong();
    for (; !form_.empty() && std::isdigit(static_cast<unsigned char>(form_[0])); form_.remove_prefix(1))
      number = 10 * number + (form_[0] - '0');
    return number;
  }

  double closed(double value) {
    if (!take(")")) wrong();
    return value;
  }

  bool begins_factor() {
    return !rest().empty() && (rest()[0] == '(' || std::isalnum(static_cast<unsigned char>(rest()[0])));
  }

  std::string_view rest() {
    while (!form_.empty() && form_[0] == ' ') form_.remove_prefix(1);
    return form_;
  }

  bool take(std::string_view word) {
    if (!rest().starts_with(word)) return false;
    form_.remove_prefix(word.size());
    return true;
  }

  [[noreturn]] void wrong() const { fail(ErrorKind::internal, "a closed form that cannot be read at \"", form_, "\""); }

  std::string_view form_;
  World world_;
  double n_;
};

}  // namespace

double closed_form(std::string_view form, World world, double n) { return FormReader(form, world, n).all(); }

std::string letters_of(std::string_view form, World world) {
  const std::pair<char, int> letters[] = {
      {'Q', largest_power(world)}, {'M', fullest_node(world)}, {'N', world.nodes()}};
  std::string out;
  for (const auto& [letter, value] : letters) {
    if (form.find(letter) != form.npos) out += text(out.empty() ? "" : ", ", letter, " = ", value);
  }
  return out;
}

}  // namespace ripieno::collective
