/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Own ship of a scene: it goes straight, turns once, and goes straight again; exact, by formulas. A
 * towed array follows its path. */
#ifndef SIM_SHIP_H
#define SIM_SHIP_H

typedef struct sim_ship {
    double heading_deg, turn_deg_s; /* heads heading_deg until turn_from_s, then turns */
    double turn_from_s;
    double turn_by_deg; /* 0: it turns without end */
    double speed_mps;   /* through the water */
    double trail_m; /* of the array's origin behind the tow point; 0: the array is at the ship */
} sim_ship;

double sim_ship_heading(const sim_ship *ship, double t_s);
/* That of the tow point when it was where the array is `distance_m` behind it. */
double sim_ship_heading_behind(const sim_ship *ship, double t_s, double distance_m);
/* Of +x of the array: a towed one heads as the ship did where the array's origin is now. */
double sim_ship_array_heading(const sim_ship *ship, double t_s);
/* Place of a towed sensor described at `position_m`, in the array frame of that time. */
void sim_ship_sensor(const sim_ship *ship, double t_s, const double position_m[3],
                     double place_m[3]);

#endif
