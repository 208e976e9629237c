"""What people see: tables, charts, timelines, pages and their theme."""
