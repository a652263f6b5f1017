#include "ripieno/data/shapes.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "ripieno/data/fixed_point.h"
#include "ripieno/data/generated.h"

namespace ripieno::data {
namespace {

constexpr int shape_side = 32;
constexpr int grid = 3;  // grid x grid points of each pixel are tested against the shape

// A shape is a test of a point in its own coordinates, where it fills the square -1000 .. 1000.
using Inside = bool (*)(int x, int y);

bool in_disc(int x, int y, int centre_x, int centre_y, int radius) {
  return (x - centre_x) * (x - centre_x) + (y - centre_y) * (y - centre_y) < radius * radius;
}

/// Whether a ray to the right crosses the outline an odd number of times.
template <std::size_t n>
bool in_polygon(int x, int y, const int (&corners)[n][2]) {
  bool inside = false;
  for (std::size_t i = 0, j = n - 1; i < n; j = i++) {
    const int ax = corners[i][0], ay = corners[i][1], bx = corners[j][0], by = corners[j][1];
    if ((ay > y) == (by > y)) continue;
    const int side_of = (bx - ax) * (y - ay) - (x - ax) * (by - ay);
    if ((side_of > 0) == (by > ay)) inside = !inside;
  }
  return inside;
}

bool disc(int x, int y) { return in_disc(x, y, 0, 0, 900); }
bool square(int x, int y) { return std::abs(x) < 800 && std::abs(y) < 800; }
bool triangle(int x, int y) {
  static constexpr int corners[][2] = {{0, -1000}, {950, 750}, {-950, 750}};
  return in_polygon(x, y, corners);
}
bool star(int x, int y) {
  // Five points on radius 1100, five notches on radius 420.
  static constexpr int corners[][2] = {{0, -1100}, {247, -340}, {1046, -340}, {399, 130},    {647, 890},
                                       {0, 420},   {-647, 890}, {-399, 130},  {-1046, -340}, {-247, -340}};
  return in_polygon(x, y, corners);
}
bool cross(int x, int y) {
  return (std::abs(x) < 300 && std::abs(y) < 1000) || (std::abs(y) < 300 && std::abs(x) < 1000);
}
bool ring(int x, int y) { return in_disc(x, y, 0, 0, 1000) && !in_disc(x, y, 0, 0, 550); }
bool crescent(int x, int y) { return in_disc(x, y, 0, 0, 1000) && !in_disc(x, y, 500, 0, 850); }
bool heart(int x, int y) {
  static constexpr int corners[][2] = {{-970, -180}, {0, -400}, {970, -180}, {0, 1000}};
  return in_disc(x, y, -500, -380, 510) || in_disc(x, y, 500, -380, 510) || in_polygon(x, y, corners);
}
/// The strip, 400 wide, that holds a coordinate; the middle strip is the 5th.
int strip(int x) { return (x + 2200) / 400; }
bool stripes(int x, int y) { return std::abs(x) < 1000 && std::abs(y) < 900 && strip(x) % 2 == 1; }
bool checks(int x, int y) { return std::abs(x) < 1000 && std::abs(y) < 1000 && (strip(x) + strip(y)) % 2 == 0; }

using Colour = std::array<int, 3>;

Colour any_colour(Random& random, int most) {
  return {range(random, 0, most), range(random, 0, most), range(random, 0, most)};
}

/// A colour that differs from another by 90 to 165 in every channel, lighter if the channel has room.
Colour contrast(Random& random, const Colour& other) {
  Colour colour;
  for (std::size_t c = 0; c < 3; ++c) colour[c] = (other[c] + range(random, 90, 165)) % 256;
  return colour;
}

/// Two similar colours that blend into each other along a direction.
struct Background {
  Colour from, to;
  int along_x, along_y;

  explicit Background(Random& random) : from(any_colour(random, 180)), to(from) {
    for (int& channel : to) channel = std::clamp(channel + range(random, -60, 60), 0, 255);
    along_x = range(random, -4, 4);
    along_y = range(random, -4, 4);
  }

  int at(std::size_t channel, int x, int y) const {
    const int part = 128 + (2 * x - shape_side) * along_x / 2 + (2 * y - shape_side) * along_y / 2;  // 0 .. 256 of `to`
    return from[channel] + (to[channel] - from[channel]) * part / 256;
  }
};

/// The shape's place, size and rotation.
class ShapePlacement {
 public:
  explicit ShapePlacement(Random& random) {
    radius_ = range(random, 8 * 16, 13 * 16);
    x_ = shape_side * 8 + range(random, -4 * 16, 4 * 16);
    y_ = shape_side * 8 + range(random, -4 * 16, 4 * 16);
    const Rotation turn = rotation(range(random, -4390, 4390));  // 30 degrees either way
    cos_ = turn.cos * 1000 / radius_;
    sin_ = turn.sin * 1000 / radius_;
  }

  /// How many of the pixel's points are inside the shape.
  template <Inside inside>
  int cover(int x, int y) const {
    const int reach = radius_ * 23 / 16 + 16;  // the corner of the shape's square, and a pixel
    const int far_x = x * 16 + 8 - x_, far_y = y * 16 + 8 - y_;
    if (far_x * far_x + far_y * far_y > reach * reach) return 0;
    int count = 0;
    for (int i = 0; i < grid * grid; ++i) {
      const std::int64_t dx = x * 16 + 3 + 5 * (i % grid) - x_, dy = y * 16 + 3 + 5 * (i / grid) - y_;
      const std::int64_t u = dx * cos_ + dy * sin_, v = dy * cos_ - dx * sin_;
      count += inside(static_cast<int>(u >> 14), static_cast<int>(v >> 14));
    }
    return count;
  }

 private:
  int radius_, x_, y_;      // 1/16 pixel
  std::int64_t cos_, sin_;  // times 2^14 thousandths of the shape in 1/16 pixel
};

using Cover = std::array<int, shape_side * shape_side>;

template <Inside inside>
void cover_all(const ShapePlacement& place, Cover& cover) {
  for (int y = 0; y < shape_side; ++y) {
    for (int x = 0; x < shape_side; ++x)
      cover[static_cast<std::size_t>(y * shape_side + x)] = place.cover<inside>(x, y);
  }
}

using CoverAll = void (*)(const ShapePlacement&, Cover&);
constexpr CoverAll classes[] = {cover_all<disc>,    cover_all<square>, cover_all<triangle>, cover_all<star>,
                                cover_all<cross>,   cover_all<ring>,   cover_all<crescent>, cover_all<heart>,
                                cover_all<stripes>, cover_all<checks>};

/// A bar that hides an edge of the shape, in half of all images.
struct Occluder {
  bool present;
  int left, top, right, bottom;
  Colour colour;

  explicit Occluder(Random& random) : present(range(random, 0, 1) == 1), colour(any_colour(random, 255)) {
    const bool upright = range(random, 0, 1) == 1;
    const int thick = range(random, 3, 5), length = range(random, 8, 20);
    left = range(random, 0, shape_side - 4);
    top = range(random, 0, shape_side - 4);
    right = left + (upright ? thick : length);
    bottom = top + (upright ? length : thick);
  }

  bool covers(int x, int y) const { return present && x >= left && x < right && y >= top && y < bottom; }
};

int draw_shape(Random& random, std::span<std::uint8_t> pixels) {
  const int label = range(random, 0, 9);
  const Background background(random);
  const Colour colour = contrast(random, background.from);
  const ShapePlacement place(random);
  const Occluder occluder(random);
  const int noise = range(random, 10, 80);
  Cover cover;
  classes[label](place, cover);

  for (int y = 0; y < shape_side; ++y) {
    for (int x = 0; x < shape_side; ++x) {
      const auto at = static_cast<std::size_t>(y * shape_side + x);
      std::uint64_t bits = random.next();
      for (std::size_t c = 0; c < 3; ++c) {
        const int behind = background.at(c, x, y);
        int value = behind + (colour[c] - behind) * cover[at] / (grid * grid);
        if (occluder.covers(x, y)) value = occluder.colour[c];
        // The difference of two uniform bytes: a triangle, -255 .. 255.
        const int shake = static_cast<int>(bits & 255) - static_cast<int>(bits >> 8 & 255);
        bits >>= 16;
        pixels[c * shape_side * shape_side + at] =
            static_cast<std::uint8_t>(std::clamp(value + (shake * noise >> 8), 0, 255));
      }
    }
  }
  return label;
}

}  // namespace

std::unique_ptr<Dataset> open_shapes(Split split, const DataOptions& options) {
  return open_generated({shapes_shape, 10, shapes_train, shapes_test, draw_shape}, split, options);
}

}  // namespace ripieno::data
