#include "ripieno/data/digits.h"

#include <algorithm>
#include <array>
#include <limits>

#include "ripieno/data/fixed_point.h"
#include "ripieno/data/generated.h"

namespace ripieno::data {
namespace {

constexpr int digit_side = 28;

struct StrokePoint {
  int x = 0, y = 0;
};

/// A pen stroke through a few corners, rounded unless it has only two. A closed stroke ends where it began.
struct Stroke {
  int count;
  StrokePoint corners[12];
  bool closed = false;
};

struct Glyph {
  int digit;
  int count;
  Stroke strokes[3];
};

// x to the right, y down, the origin in the middle; a digit is about 20 wide and 28 high.
// clang-format off
constexpr Glyph glyphs[] = {
    {0, 1, {{10, {{0, -15}, {7, -14}, {10, -6}, {10, 6}, {7, 14},
                  {0, 15}, {-7, 14}, {-10, 6}, {-10, -6}, {-7, -14}}, true}}},
    {0, 1, {{8, {{2, -15}, {9, -12}, {8, 4}, {3, 14}, {-3, 15}, {-8, 10}, {-8, -4}, {-3, -14}}, true}}},
    {1, 1, {{2, {{0, -14}, {0, 14}}}}},
    {1, 2, {{2, {{0, -14}, {0, 14}}}, {2, {{-6, -8}, {0, -14}}}}},
    {1, 3, {{2, {{0, -14}, {0, 14}}}, {2, {{-6, -9}, {0, -14}}}, {2, {{-6, 14}, {6, 14}}}}},
    {2, 2, {{7, {{-9, -8}, {-8, -14}, {3, -17}, {11, -11}, {8, -2}, {0, 5}, {-10, 14}}},
            {2, {{-10, 14}, {10, 14}}}}},
    {2, 1, {{11, {{-9, -9}, {-6, -15}, {5, -16}, {10, -9}, {5, 1}, {-5, 13},
                  {-10, 14}, {-10, 8}, {-4, 8}, {3, 14}, {11, 12}}}}},
    {3, 2, {{6, {{-9, -11}, {-4, -16}, {8, -15}, {11, -6}, {4, -1}, {-3, -1}}},
            {6, {{-3, -1}, {6, -2}, {12, 5}, {8, 15}, {-3, 16}, {-10, 11}}}}},
    {3, 3, {{2, {{-9, -14}, {8, -14}}}, {2, {{8, -14}, {-1, -3}}},
            {6, {{-1, -3}, {9, -4}, {13, 6}, {7, 15}, {-3, 16}, {-10, 11}}}}},
    {4, 3, {{2, {{5, 14}, {5, -14}}}, {2, {{5, -14}, {-10, 5}}}, {2, {{-10, 5}, {11, 5}}}}},
    {4, 3, {{2, {{-7, -14}, {-9, 2}}}, {2, {{-9, 2}, {11, 2}}}, {2, {{6, -13}, {5, 14}}}}},
    {5, 3, {{2, {{8, -14}, {-6, -14}}}, {2, {{-6, -14}, {-8, -2}}},
            {7, {{-8, -2}, {0, -6}, {10, -4}, {12, 7}, {6, 15}, {-4, 16}, {-10, 11}}}}},
    {6, 1, {{11, {{8, -14}, {-3, -12}, {-10, -2}, {-10, 10}, {-5, 16}, {5, 16},
                  {11, 9}, {8, 1}, {1, -2}, {-6, 0}, {-9, 7}}}}},
    {6, 2, {{4, {{5, -15}, {-4, -8}, {-9, 0}, {-9, 8}}},
            {8, {{0, -1}, {7, 0}, {9, 7}, {7, 14}, {0, 15}, {-7, 14}, {-9, 7}, {-7, 0}}, true}}},
    {7, 2, {{2, {{-9, -14}, {9, -14}}}, {3, {{9, -14}, {0, 2}, {-3, 14}}}}},
    {7, 3, {{2, {{-9, -14}, {9, -14}}}, {2, {{9, -14}, {-4, 14}}}, {2, {{-4, 0}, {8, 0}}}}},
    {8, 2, {{8, {{0, -15}, {6, -14}, {8, -8}, {5, -2}, {0, -1}, {-5, -2}, {-8, -8}, {-6, -14}}, true},
            {8, {{0, -1}, {7, 0}, {10, 7}, {7, 14}, {0, 15}, {-7, 14}, {-10, 7}, {-7, 0}}, true}}},
    {9, 1, {{11, {{-8, 14}, {3, 12}, {10, 2}, {10, -10}, {5, -16}, {-5, -16},
                  {-11, -9}, {-8, -1}, {-1, 2}, {6, 0}, {9, -7}}}}},
    {9, 2, {{8, {{0, -15}, {7, -14}, {9, -7}, {7, 0}, {0, 1}, {-7, 0}, {-9, -7}, {-7, -14}}, true},
            {3, {{9, -9}, {9, 2}, {6, 14}}}}},
};
// clang-format on

/// The squared distance of every pixel's centre to the nearest stroke, in (1/256 pixel)^2.
class Canvas {
 public:
  Canvas() { distance_.fill(far); }

  /// Ends in 1/256 pixel. Only pixels within `reach` of the segment are touched.
  void segment(StrokePoint a, StrokePoint b, int reach) {
    const std::int64_t dx = b.x - a.x, dy = b.y - a.y, length2 = dx * dx + dy * dy;
    const auto first = [&](int p, int q) { return std::max(0, (std::min(p, q) - reach) >> 8); };
    const auto last = [&](int p, int q) { return std::min(digit_side - 1, (std::max(p, q) + reach) >> 8); };
    for (int y = first(a.y, b.y); y <= last(a.y, b.y); ++y) {
      for (int x = first(a.x, b.x); x <= last(a.x, b.x); ++x) {
        const std::int64_t px = x * 256 + 128 - a.x, py = y * 256 + 128 - a.y;
        const std::int64_t along = px * dx + py * dy, across = px * dy - py * dx;
        std::int64_t d2;
        if (along <= 0) {
          d2 = px * px + py * py;
        } else if (along >= length2) {
          d2 = (px - dx) * (px - dx) + (py - dy) * (py - dy);
        } else {
          d2 = across * across / length2;  // below 2^58: everything is within a few canvases
        }
        std::int64_t& nearest = distance_[static_cast<std::size_t>(y) * digit_side + static_cast<std::size_t>(x)];
        nearest = std::min(nearest, d2);
      }
    }
  }

  /// Adds ink where the strokes are: all of it within radius - soft/2, none beyond radius + soft/2 (1/256 pixel).
  void ink(int radius, int soft, int strength, std::array<int, digit_side * digit_side>& image) const {
    const int outer = radius + soft / 2;
    for (std::size_t i = 0; i < image.size(); ++i) {
      if (distance_[i] >= std::int64_t{outer} * outer) continue;
      const int inside = std::min(outer - whole_sqrt(distance_[i]), soft);
      image[i] = std::max(image[i], strength * inside / soft);
    }
  }

 private:
  static constexpr std::int64_t far = std::numeric_limits<std::int64_t>::max();
  std::array<std::int64_t, digit_side * digit_side> distance_;
};

/// Corners cut at a quarter and three quarters of each edge, twice (Chaikin, 1974): a quadratic B-spline in the limit.
class Path {
 public:
  explicit Path(const Stroke& stroke) : count_(stroke.count), closed_(stroke.closed) {
    std::copy_n(stroke.corners, stroke.count, points_.begin());
  }

  template <class Function>
  void transform(Function function) {
    for (int i = 0; i < count_; ++i) at(i) = function(at(i));
  }

  void round() {
    if (count_ == 2) return;
    std::array<StrokePoint, 64> cut;
    std::size_t n = 0;
    const int edges = closed_ ? count_ : count_ - 1;
    if (!closed_) cut[n++] = at(0);
    for (int i = 0; i < edges; ++i) {
      const StrokePoint a = at(i), b = at((i + 1) % count_);
      if (closed_ || i > 0) cut[n++] = {(3 * a.x + b.x) / 4, (3 * a.y + b.y) / 4};
      if (closed_ || i + 1 < edges) cut[n++] = {(a.x + 3 * b.x) / 4, (a.y + 3 * b.y) / 4};
    }
    if (!closed_) cut[n++] = at(count_ - 1);
    points_ = cut;
    count_ = static_cast<int>(n);
  }

  void draw(Canvas& canvas, int reach) {
    for (int i = 0; i < (closed_ ? count_ : count_ - 1); ++i) canvas.segment(at(i), at((i + 1) % count_), reach);
  }

 private:
  StrokePoint& at(int i) { return points_[static_cast<std::size_t>(i)]; }
  std::array<StrokePoint, 64> points_;
  int count_;
  bool closed_;
};

/// A random scaling, slant, rotation and shift from glyph units to 1/256 pixel.
class DigitPlacement {
 public:
  explicit DigitPlacement(Random& random)
      : wide_(range(random, 120, 210)),
        high_(range(random, 130, 205)),
        slant_(range(random, -90, 90)),
        turn_(rotation(range(random, -3200, 3200))),  // 22 degrees either way
        x_(digit_side * 128 + range(random, -900, 900)),
        y_(digit_side * 128 + range(random, -750, 750)) {}

  StrokePoint operator()(StrokePoint p) const {
    const std::int64_t x = p.x * wide_ - (p.y * high_ * slant_ >> 8), y = p.y * high_;
    return {x_ + static_cast<int>((x * turn_.cos - y * turn_.sin) >> 14),
            y_ + static_cast<int>((x * turn_.sin + y * turn_.cos) >> 14)};
  }

 private:
  int wide_, high_;  // 1/256 pixel a unit
  int slant_;        // 1/256
  Rotation turn_;
  int x_, y_;
};

void draw_glyph(Random& random, const Glyph& glyph, std::array<int, digit_side * digit_side>& image) {
  const DigitPlacement place(random);
  const int radius = range(random, 150, 420), soft = range(random, 150, 420);
  const int reach = radius + soft;
  const int jitter = 360;  // over a pixel, so that no two sevens are the same
  Canvas canvas;
  for (int s = 0; s < glyph.count; ++s) {
    Path path(glyph.strokes[s]);
    path.transform([&](StrokePoint p) {
      const StrokePoint at = place(p);
      const int dx = range(random, -jitter, jitter), dy = range(random, -jitter, jitter);
      return StrokePoint{at.x + dx, at.y + dy};
    });
    path.round();
    path.round();
    path.draw(canvas, reach);
  }
  canvas.ink(radius, soft, range(random, 120, 255), image);
}

/// A short stray stroke, fainter than most digits, anywhere.
void draw_distractor(Random& random, std::array<int, digit_side * digit_side>& image) {
  const StrokePoint a = {range(random, 0, digit_side * 256), range(random, 0, digit_side * 256)};
  const StrokePoint b = {a.x + range(random, -1500, 1500), a.y + range(random, -1500, 1500)};
  const int radius = range(random, 100, 250), soft = 256;
  Canvas canvas;
  canvas.segment(a, b, radius + soft);
  canvas.ink(radius, soft, range(random, 60, 220), image);
}

int draw_digit(Random& random, std::span<std::uint8_t> pixels) {
  const int digit = range(random, 0, 9);
  const auto is_digit = [&](const Glyph& glyph) { return glyph.digit == digit; };
  const auto first = std::find_if(std::begin(glyphs), std::end(glyphs), is_digit);
  const auto variants = static_cast<int>(std::count_if(first, std::end(glyphs), is_digit));
  const Glyph& glyph = first[range(random, 0, variants - 1)];

  std::array<int, digit_side * digit_side> image;
  image.fill(range(random, 0, 60));
  draw_glyph(random, glyph, image);
  for (int left = range(random, 0, 4); left > 0; --left) draw_distractor(random, image);

  const int noise = range(random, 0, 80);
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < image.size(); ++i) {
    if (i % 4 == 0) bits = random.next();
    // The difference of two uniform bytes: a triangle, -255 .. 255.
    const int shake = static_cast<int>(bits & 255) - static_cast<int>(bits >> 8 & 255);
    bits >>= 16;
    pixels[i] = static_cast<std::uint8_t>(std::clamp(image[i] + (shake * noise >> 8), 0, 255));
  }
  return digit;
}

}  // namespace

std::unique_ptr<Dataset> open_digits(Split split, const DataOptions& options) {
  return open_generated({digits_shape, 10, digits_train, digits_test, draw_digit}, split, options);
}

}  // namespace ripieno::data
